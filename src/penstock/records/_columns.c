/* Records as columns, and columns as records: the loops of `records/columns.py`, compiled.
 *
 * `Columns` takes the blocks of records of batches (decompressed) and lays out their fields as Arrow does: validity bits,
 * 32-bit offsets, bytes. `Block` takes rows of such columns and makes the block of records of one batch of them.
 *
 * Memory is malloc's, so that the interpreter's lock can be let go while a block is walked. What is handed out are `Buffer`
 * objects that own their memory: Arrow refers to it without a copy.
 *
 * Nothing that is read is trusted: every length is held against what is left before it is used. An error leaves an object
 * that can only be thrown away.
 */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static PyObject *CorruptError; /* ValueError's child: the block of records breaks its own rules */
static PyTypeObject *BufferType;

/* ---- memory that grows, and the object that hands it out ------------------------------------------------------- */

typedef struct {
    char *data;
    size_t size;
    size_t capacity;
    size_t expected; /* what to begin with: as much as the one before came to, so that most never move */
} Growing;

static int reserve(Growing *to, size_t more)
{
    size_t wanted = to->size + more;
    if (wanted <= to->capacity)
        return 0;
    size_t capacity = to->capacity ? to->capacity : 1024 + to->expected;
    while (capacity < wanted)
        capacity += capacity / 2;
    char *data = realloc(to->data, capacity);
    if (data == NULL)
        return -1;
    to->data = data;
    to->capacity = capacity;
    return 0;
}

static int append(Growing *to, const void *from, size_t size)
{
    if (reserve(to, size) < 0)
        return -1;
    if (size)
        memcpy(to->data + to->size, from, size);
    to->size += size;
    return 0;
}

static int append_int32(Growing *to, int32_t number) { return append(to, &number, sizeof number); }
static int append_int64(Growing *to, int64_t number) { return append(to, &number, sizeof number); }

static void discard(Growing *what)
{
    free(what->data);
    what->data = NULL;
    what->size = what->capacity = 0;
}

typedef struct {
    PyObject_HEAD
    char *data;
    Py_ssize_t size;
} BufferObject;

static int buffer_get(PyObject *self, Py_buffer *view, int flags)
{
    BufferObject *buffer = (BufferObject *)self;
    static char nothing[1];
    return PyBuffer_FillInfo(view, self, buffer->data ? buffer->data : nothing, buffer->size, 1, flags);
}

static void buffer_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    free(((BufferObject *)self)->data);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static Py_ssize_t buffer_length(PyObject *self) { return ((BufferObject *)self)->size; }

static PyType_Slot buffer_slots[] = {
    {Py_tp_doc, "Bytes that somebody else may refer to; read only."},
    {Py_tp_dealloc, buffer_dealloc},
    {Py_bf_getbuffer, buffer_get},
    {Py_sq_length, buffer_length},
    {0, NULL},
};

static PyType_Spec buffer_spec = {
    "penstock.records._columns.Buffer", sizeof(BufferObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, buffer_slots,
};

/* The memory goes to a new object; `what` starts anew, and expects as much again. */
static PyObject *hand_out(Growing *what)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(BufferType, Py_tp_alloc);
    BufferObject *buffer = (BufferObject *)allocate(BufferType, 0);
    if (buffer == NULL)
        return NULL;
    buffer->data = what->data;
    buffer->size = (Py_ssize_t)what->size;
    size_t expected = what->size + what->size / 8;
    memset(what, 0, sizeof *what);
    what->expected = expected;
    return (PyObject *)buffer;
}

/* ---- a column of bytes, some of them null ----------------------------------------------------------------------- */

typedef struct {
    Growing validity; /* one bit per row; made when the first null comes */
    Growing ends;     /* int32: where each row ends; the first entry is 0 */
    Growing bytes;
    int64_t rows;
    int has_nulls;
} Binary;

static int begin_binary(Binary *column) { return append_int32(&column->ends, 0); }

static int set_valid(Binary *column, int valid)
{
    size_t needed = (size_t)(column->rows / 8 + 1);
    while (column->validity.size < needed) {
        unsigned char none = 0;
        if (append(&column->validity, &none, 1) < 0)
            return -1;
    }
    if (valid)
        column->validity.data[column->rows / 8] |= (char)(1 << (column->rows % 8));
    return 0;
}

/* 0, or -1 for lack of memory, or -2 if the column would be longer than 32-bit offsets reach. */
static int append_binary(Binary *column, const char *from, int64_t size)
{
    if (size < 0 && !column->has_nulls) {
        int64_t rows = column->rows;
        column->has_nulls = 1;
        if (reserve(&column->validity, (size_t)(rows / 8 + 2)) < 0)
            return -1;
        memset(column->validity.data, 0xff, (size_t)(rows / 8 + 1));
        column->validity.size = (size_t)(rows / 8 + 1);
        column->validity.data[rows / 8] = (char)((1 << (rows % 8)) - 1);
    }
    if (column->has_nulls && set_valid(column, size >= 0) < 0)
        return -1;
    if (size > 0) {
        if (column->bytes.size + (size_t)size > INT32_MAX)
            return -2;
        if (append(&column->bytes, from, (size_t)size) < 0)
            return -1;
    }
    column->rows++;
    return append_int32(&column->ends, (int32_t)column->bytes.size);
}

static void discard_binary(Binary *column)
{
    discard(&column->validity);
    discard(&column->ends);
    discard(&column->bytes);
    column->rows = 0;
    column->has_nulls = 0;
}

/* (validity or None, ends, bytes); the column is empty afterwards. */
static PyObject *hand_out_binary(Binary *column)
{
    PyObject *validity = column->has_nulls ? hand_out(&column->validity) : Py_NewRef(Py_None);
    PyObject *ends = validity ? hand_out(&column->ends) : NULL;
    PyObject *bytes = ends ? hand_out(&column->bytes) : NULL;
    PyObject *all = bytes ? PyTuple_Pack(3, validity, ends, bytes) : NULL;
    Py_XDECREF(validity);
    Py_XDECREF(ends);
    Py_XDECREF(bytes);
    discard_binary(column);
    return all;
}

/* ---- varints ---------------------------------------------------------------------------------------------------- */

typedef struct {
    const unsigned char *at;
    const unsigned char *end;
    const char *problem; /* set once something was wrong */
} Cursor;

static int64_t read_varint(Cursor *cursor, int bits)
{
    uint64_t raw = 0;
    int shift = 0;
    for (;;) {
        if (cursor->at >= cursor->end) {
            cursor->problem = "the records go on past the end of their batch";
            return 0;
        }
        unsigned char byte = *cursor->at++;
        raw |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            if (shift + 7 > bits && (byte >> (bits - shift)) != 0)
                break;
            return (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
        }
        shift += 7;
        if (shift >= bits)
            break;
    }
    cursor->problem = bits == 32 ? "a varint of more than 32 bits" : "a varint of more than 64 bits";
    return 0;
}

static const char *read_bytes(Cursor *cursor, int64_t size)
{
    if (size > cursor->end - cursor->at) {
        cursor->problem = "the records go on past the end of their batch";
        return NULL;
    }
    const char *from = (const char *)cursor->at;
    cursor->at += size;
    return from;
}

static int write_varint(Growing *to, int64_t number)
{
    uint64_t raw = ((uint64_t)number << 1) ^ (uint64_t)(number >> 63);
    unsigned char encoded[10];
    int count = 0;
    while (raw > 0x7f) {
        encoded[count++] = (unsigned char)(raw & 0x7f) | 0x80;
        raw >>= 7;
    }
    encoded[count++] = (unsigned char)raw;
    return append(to, encoded, (size_t)count);
}

static int varint_size(int64_t number)
{
    uint64_t raw = ((uint64_t)number << 1) ^ (uint64_t)(number >> 63);
    int count = 1;
    while (raw > 0x7f) {
        count++;
        raw >>= 7;
    }
    return count;
}

static int is_utf8(const unsigned char *text, int64_t size)
{
    const unsigned char *end = text + size;
    while (text < end) {
        unsigned char first = *text++;
        int more;
        unsigned char low = 0x80, high = 0xbf;
        if (first < 0x80)
            continue;
        if (first >= 0xc2 && first <= 0xdf)
            more = 1;
        else if (first >= 0xe0 && first <= 0xef) {
            more = 2;
            low = first == 0xe0 ? 0xa0 : 0x80;
            high = first == 0xed ? 0x9f : 0xbf;
        } else if (first >= 0xf0 && first <= 0xf4) {
            more = 3;
            low = first == 0xf0 ? 0x90 : 0x80;
            high = first == 0xf4 ? 0x8f : 0xbf;
        } else
            return 0;
        for (int each = 0; each < more; each++) {
            if (text >= end || *text < low || *text > high)
                return 0;
            text++;
            low = 0x80;
            high = 0xbf;
        }
    }
    return 1;
}

/* ---- Columns: from records ------------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    int want_keys, want_values, want_headers;
    int64_t rows;
    Growing offsets;    /* int64 */
    Growing timestamps; /* int64, microseconds */
    Binary keys;
    Binary values;
    Growing header_ends; /* int32, per row */
    Binary header_keys;
    Binary header_values;
} ColumnsObject;

static void discard_columns(ColumnsObject *columns)
{
    discard(&columns->offsets);
    discard(&columns->timestamps);
    discard_binary(&columns->keys);
    discard_binary(&columns->values);
    discard(&columns->header_ends);
    discard_binary(&columns->header_keys);
    discard_binary(&columns->header_values);
    columns->rows = 0;
}

static int begin_columns(ColumnsObject *columns)
{
    if (begin_binary(&columns->keys) < 0 || begin_binary(&columns->values) < 0 ||
        append_int32(&columns->header_ends, 0) < 0 || begin_binary(&columns->header_keys) < 0 ||
        begin_binary(&columns->header_values) < 0) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static int columns_init(PyObject *self, PyObject *arguments, PyObject *named)
{
    static char *names[] = {"keys", "values", "headers", NULL};
    ColumnsObject *columns = (ColumnsObject *)self;
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "|$ppp", names, &columns->want_keys,
                                     &columns->want_values, &columns->want_headers))
        return -1;
    discard_columns(columns);
    return begin_columns(columns);
}

static void columns_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    discard_columns((ColumnsObject *)self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static int64_t to_microseconds(int64_t milliseconds)
{
    if (milliseconds > INT64_MAX / 1000)
        return INT64_MAX;
    if (milliseconds < INT64_MIN / 1000)
        return INT64_MIN;
    return milliseconds * 1000;
}

typedef struct {
    int64_t count, base_offset, base_timestamp, append_timestamp, last_delta, from_offset, until_offset;
    int is_append_time;
} BatchFacts;

static int grow_result(Cursor *cursor, int result)
{
    if (result == -2)
        cursor->problem = "a column of more than 2 GiB";
    return result;
}

static int read_headers(ColumnsObject *columns, Cursor *cursor, int keep)
{
    int64_t count = read_varint(cursor, 32);
    if (cursor->problem)
        return 0;
    if (count < 0 || count > (cursor->end - cursor->at) / 2) {
        cursor->problem = "a record cannot have that many headers";
        return 0;
    }
    for (int64_t each = 0; each < count; each++) {
        int64_t key_size = read_varint(cursor, 32);
        if (!cursor->problem && key_size < 0)
            cursor->problem = "a header key of a negative size";
        const char *key = cursor->problem ? NULL : read_bytes(cursor, key_size);
        if (!cursor->problem && !is_utf8((const unsigned char *)key, key_size))
            cursor->problem = "a header key is not UTF-8";
        int64_t value_size = cursor->problem ? 0 : read_varint(cursor, 32);
        if (!cursor->problem && value_size < -1)
            cursor->problem = "a header value of a negative size";
        const char *value = cursor->problem || value_size < 0 ? NULL : read_bytes(cursor, value_size);
        if (cursor->problem)
            return 0;
        if (keep) {
            if (grow_result(cursor, append_binary(&columns->header_keys, key, key_size)) < 0 ||
                grow_result(cursor, append_binary(&columns->header_values, value, value_size)) < 0)
                return -1;
        }
    }
    return 0;
}

/* 0; or -1, with a problem in the cursor or for lack of memory. */
static int read_block(ColumnsObject *columns, Cursor *cursor, const BatchFacts *facts)
{
    const unsigned char *block_end = cursor->end;
    int64_t previous_delta = -1;
    for (int64_t index = 0; index < facts->count; index++) {
        cursor->end = block_end;
        int64_t size = read_varint(cursor, 32);
        if (!cursor->problem && (size < 1 || size > block_end - cursor->at))
            cursor->problem = "the records go on past the end of their batch";
        if (cursor->problem)
            return -1;
        cursor->end = cursor->at + size;
        cursor->at++; /* the record's attributes: no bit has a meaning yet */
        int64_t timestamp_delta = read_varint(cursor, 64);
        int64_t delta = cursor->problem ? 0 : read_varint(cursor, 32);
        if (!cursor->problem && (delta <= previous_delta || delta > facts->last_delta))
            cursor->problem = "offsets do not rise, or leave their batch's range";
        if (cursor->problem)
            return -1;
        previous_delta = delta;
        int64_t key_size = read_varint(cursor, 32);
        if (!cursor->problem && key_size < -1)
            cursor->problem = "a key of a negative size";
        const char *key = cursor->problem || key_size < 0 ? NULL : read_bytes(cursor, key_size);
        int64_t value_size = cursor->problem ? 0 : read_varint(cursor, 32);
        if (!cursor->problem && value_size < -1)
            cursor->problem = "a value of a negative size";
        const char *value = cursor->problem || value_size < 0 ? NULL : read_bytes(cursor, value_size);
        if (cursor->problem)
            return -1;
        int64_t timestamp;
        if (__builtin_add_overflow(facts->base_timestamp, timestamp_delta, &timestamp)) {
            cursor->problem = "a timestamp does not fit into 64 bits";
            return -1;
        }
        int64_t offset = facts->base_offset + delta;
        int keep = offset >= facts->from_offset && offset < facts->until_offset;
        if (read_headers(columns, cursor, keep && columns->want_headers) < 0)
            return -1;
        if (!cursor->problem && cursor->at != cursor->end)
            cursor->problem = "a record does not end where its size says";
        if (cursor->problem)
            return -1;
        if (!keep)
            continue;
        if (facts->is_append_time)
            timestamp = facts->append_timestamp;
        if (append_int64(&columns->offsets, offset) < 0 ||
            append_int64(&columns->timestamps, to_microseconds(timestamp)) < 0)
            return -1;
        if (columns->want_keys && grow_result(cursor, append_binary(&columns->keys, key, key_size)) < 0)
            return -1;
        if (columns->want_values && grow_result(cursor, append_binary(&columns->values, value, value_size)) < 0)
            return -1;
        if (columns->want_headers && append_int32(&columns->header_ends, (int32_t)columns->header_keys.rows) < 0)
            return -1;
        columns->rows++;
    }
    cursor->end = block_end;
    if (cursor->at != block_end) {
        cursor->problem = "bytes follow the last record";
        return -1;
    }
    return 0;
}

static PyObject *columns_add(PyObject *self, PyObject *arguments)
{
    ColumnsObject *columns = (ColumnsObject *)self;
    Py_buffer block;
    BatchFacts facts;
    PyObject *append_timestamp;
    if (!PyArg_ParseTuple(arguments, "y*LLLOLLL", &block, &facts.count, &facts.base_offset, &facts.base_timestamp,
                          &append_timestamp, &facts.last_delta, &facts.from_offset, &facts.until_offset))
        return NULL;
    facts.append_timestamp = 0;
    facts.is_append_time = append_timestamp != Py_None;
    if (facts.is_append_time) {
        facts.append_timestamp = PyLong_AsLongLong(append_timestamp);
        if (PyErr_Occurred()) {
            PyBuffer_Release(&block);
            return NULL;
        }
    }
    Cursor cursor = {block.buf, (const unsigned char *)block.buf + block.len, NULL};
    int64_t rows_before = columns->rows;
    int result;
    Py_BEGIN_ALLOW_THREADS
    result = read_block(columns, &cursor, &facts);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&block);
    if (result < 0) {
        if (cursor.problem)
            PyErr_SetString(CorruptError, cursor.problem);
        else
            PyErr_NoMemory();
        return NULL;
    }
    return PyLong_FromLongLong(columns->rows - rows_before);
}

static PyObject *hand_out_headers(ColumnsObject *columns)
{
    PyObject *ends = hand_out(&columns->header_ends);
    PyObject *keys = ends ? hand_out_binary(&columns->header_keys) : NULL;
    PyObject *values = keys ? hand_out_binary(&columns->header_values) : NULL;
    PyObject *all = values ? PyTuple_Pack(3, ends, keys, values) : NULL;
    Py_XDECREF(ends);
    Py_XDECREF(keys);
    Py_XDECREF(values);
    return all;
}

static PyObject *columns_take(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    ColumnsObject *columns = (ColumnsObject *)self;
    PyObject *rows = PyLong_FromLongLong(columns->rows);
    PyObject *offsets = rows ? hand_out(&columns->offsets) : NULL;
    PyObject *timestamps = offsets ? hand_out(&columns->timestamps) : NULL;
    PyObject *keys = timestamps ? (columns->want_keys ? hand_out_binary(&columns->keys) : Py_NewRef(Py_None)) : NULL;
    PyObject *values = keys ? (columns->want_values ? hand_out_binary(&columns->values) : Py_NewRef(Py_None)) : NULL;
    PyObject *headers = values ? (columns->want_headers ? hand_out_headers(columns) : Py_NewRef(Py_None)) : NULL;
    PyObject *all = headers ? PyTuple_Pack(6, rows, offsets, timestamps, keys, values, headers) : NULL;
    Py_XDECREF(rows);
    Py_XDECREF(offsets);
    Py_XDECREF(timestamps);
    Py_XDECREF(keys);
    Py_XDECREF(values);
    Py_XDECREF(headers);
    discard_columns(columns);
    if (begin_columns(columns) < 0)
        Py_CLEAR(all);
    return all;
}

static PyObject *columns_rows(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(((ColumnsObject *)self)->rows);
}

static PyObject *columns_bytes(PyObject *self, void *Py_UNUSED(closure))
{
    ColumnsObject *columns = (ColumnsObject *)self;
    return PyLong_FromSize_t(columns->keys.bytes.size + columns->values.bytes.size + columns->header_keys.bytes.size +
                             columns->header_values.bytes.size + 16 * (size_t)columns->rows);
}

static PyMethodDef columns_methods[] = {
    {"add", columns_add, METH_VARARGS,
     "add(block, count, base_offset, base_timestamp, append_timestamp, last_offset_delta, from_offset, until_offset)\n"
     "The records of one batch whose offsets are in the range; how many they were."},
    {"take", columns_take, METH_NOARGS,
     "(rows, offsets, timestamps, keys, values, headers), and start anew; None for what is not wanted."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef columns_properties[] = {
    {"rows", columns_rows, NULL, "How many rows have come together.", NULL},
    {"bytes", columns_bytes, NULL, "About how much they take.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot columns_slots[] = {
    {Py_tp_doc, "Columns(*, keys, values, headers): gathers records as columns."},
    {Py_tp_init, columns_init},
    {Py_tp_dealloc, columns_dealloc},
    {Py_tp_methods, columns_methods},
    {Py_tp_getset, columns_properties},
    {0, NULL},
};

static PyType_Spec columns_spec = {
    "penstock.records._columns.Columns", sizeof(ColumnsObject), 0, Py_TPFLAGS_DEFAULT, columns_slots,
};

/* ---- Block: to records ------------------------------------------------------------------------------------------ */

typedef struct {
    Py_buffer validity, ends, bytes;
    int has_validity;
    int64_t rows;
    int64_t last_end;
} BinaryView;

static void release_binary(BinaryView *view)
{
    if (view->has_validity)
        PyBuffer_Release(&view->validity);
    if (view->ends.obj)
        PyBuffer_Release(&view->ends);
    if (view->bytes.obj)
        PyBuffer_Release(&view->bytes);
    memset(view, 0, sizeof *view);
}

/* Offsets are checked once, all of them: they must rise, from 0 or above, and end within the bytes. */
static int check_ends(const Py_buffer *ends, int64_t rows, int64_t limit)
{
    const int32_t *numbers = ends->buf;
    if (rows == 0)
        return 0;
    if (ends->len < (rows + 1) * 4 || numbers[0] < 0)
        return -1;
    for (int64_t row = 0; row < rows; row++)
        if (numbers[row + 1] < numbers[row])
            return -1;
    return numbers[rows] <= limit ? 0 : -1;
}

/* (validity or None, ends, bytes), or None for a column that is not there. */
static int view_binary(PyObject *from, int64_t rows, BinaryView *view)
{
    memset(view, 0, sizeof *view);
    view->rows = rows;
    if (from == Py_None)
        return 0;
    PyObject *validity, *ends, *bytes;
    if (!PyArg_ParseTuple(from, "OOO", &validity, &ends, &bytes))
        return -1;
    if (PyObject_GetBuffer(ends, &view->ends, PyBUF_SIMPLE) < 0 || PyObject_GetBuffer(bytes, &view->bytes, PyBUF_SIMPLE) < 0)
        return -1;
    if (validity != Py_None) {
        if (PyObject_GetBuffer(validity, &view->validity, PyBUF_SIMPLE) < 0)
            return -1;
        view->has_validity = 1;
    }
    if ((view->has_validity && view->validity.len < (rows + 7) / 8) || check_ends(&view->ends, rows, view->bytes.len) < 0) {
        PyErr_SetString(PyExc_ValueError, "a column's buffers do not fit its rows");
        return -1;
    }
    return 0;
}

static int is_valid(const Py_buffer *validity, int64_t row)
{
    return ((const unsigned char *)validity->buf)[row / 8] >> (row % 8) & 1;
}

/* The size, or -1 for null. */
static int64_t element(const BinaryView *view, int64_t row, const char **from)
{
    if (view->ends.obj == NULL || (view->has_validity && !is_valid(&view->validity, row)))
        return -1;
    const int32_t *ends = view->ends.buf;
    *from = (const char *)view->bytes.buf + ends[row];
    return ends[row + 1] - ends[row];
}

typedef struct {
    BinaryView keys, values, header_keys, header_values;
    Py_buffer timestamps, header_ends;
    int has_timestamps, has_headers;
} Rows;

static void release_rows(Rows *rows)
{
    release_binary(&rows->keys);
    release_binary(&rows->values);
    release_binary(&rows->header_keys);
    release_binary(&rows->header_values);
    if (rows->has_timestamps)
        PyBuffer_Release(&rows->timestamps);
    if (rows->has_headers)
        PyBuffer_Release(&rows->header_ends);
}

static int view_rows(PyObject *keys, PyObject *values, PyObject *headers, PyObject *timestamps, int64_t count, Rows *rows)
{
    memset(rows, 0, sizeof *rows);
    if (view_binary(keys, count, &rows->keys) < 0 || view_binary(values, count, &rows->values) < 0)
        return -1;
    if (timestamps != Py_None) {
        if (PyObject_GetBuffer(timestamps, &rows->timestamps, PyBUF_SIMPLE) < 0)
            return -1;
        rows->has_timestamps = 1;
        if (rows->timestamps.len < count * 8) {
            PyErr_SetString(PyExc_ValueError, "there are fewer timestamps than rows");
            return -1;
        }
    }
    if (headers == Py_None)
        return 0;
    PyObject *ends, *header_keys, *header_values;
    if (!PyArg_ParseTuple(headers, "OOO", &ends, &header_keys, &header_values))
        return -1;
    if (PyObject_GetBuffer(ends, &rows->header_ends, PyBUF_SIMPLE) < 0)
        return -1;
    rows->has_headers = 1;
    if (check_ends(&rows->header_ends, count, INT32_MAX) < 0) {
        PyErr_SetString(PyExc_ValueError, "a column's buffers do not fit its rows");
        return -1;
    }
    int64_t header_count = count ? ((const int32_t *)rows->header_ends.buf)[count] : 0;
    if (view_binary(header_keys, header_count, &rows->header_keys) < 0 ||
        view_binary(header_values, header_count, &rows->header_values) < 0)
        return -1;
    return 0;
}

typedef struct {
    PyObject_HEAD
    Growing bytes;
    int64_t count, base_timestamp, max_timestamp;
} BlockObject;

static int block_init(PyObject *self, PyObject *arguments, PyObject *named)
{
    static char *names[] = {NULL};
    BlockObject *block = (BlockObject *)self;
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "", names))
        return -1;
    discard(&block->bytes);
    block->count = 0;
    return 0;
}

static void block_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    discard(&((BlockObject *)self)->bytes);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static int64_t headers_size(const Rows *rows, int64_t row)
{
    if (!rows->has_headers)
        return 1;
    const int32_t *ends = rows->header_ends.buf;
    int64_t size = varint_size(ends[row + 1] - ends[row]);
    for (int64_t each = ends[row]; each < ends[row + 1]; each++) {
        const char *from;
        int64_t key_size = element(&rows->header_keys, each, &from);
        int64_t value_size = element(&rows->header_values, each, &from);
        if (key_size < 0)
            return -1;
        size += varint_size(key_size) + key_size + varint_size(value_size) + (value_size > 0 ? value_size : 0);
    }
    return size;
}

static int write_bytes(Growing *to, const char *from, int64_t size)
{
    if (write_varint(to, size) < 0)
        return -1;
    return size > 0 ? append(to, from, (size_t)size) : 0;
}

static int write_headers(Growing *to, const Rows *rows, int64_t row)
{
    if (!rows->has_headers)
        return append(to, "", 1);
    const int32_t *ends = rows->header_ends.buf;
    if (write_varint(to, ends[row + 1] - ends[row]) < 0)
        return -1;
    for (int64_t each = ends[row]; each < ends[row + 1]; each++) {
        const char *from = NULL;
        int64_t size = element(&rows->header_keys, each, &from);
        if (write_bytes(to, from, size) < 0)
            return -1;
        size = element(&rows->header_values, each, &from);
        if (write_bytes(to, from, size) < 0)
            return -1;
    }
    return 0;
}

/* How many rows were taken; less than all if the block is full. -1: no memory; -2: a header without a key. */
static int64_t write_rows(BlockObject *block, const Rows *rows, const int32_t *which, int64_t count, int64_t now,
                          size_t size_max)
{
    for (int64_t index = 0; index < count; index++) {
        int64_t row = which[index];
        const char *key = NULL, *value = NULL;
        int64_t key_size = element(&rows->keys, row, &key);
        int64_t value_size = element(&rows->values, row, &value);
        int64_t timestamp = rows->has_timestamps ? ((const int64_t *)rows->timestamps.buf)[row] : now;
        int64_t base_timestamp = block->count ? block->base_timestamp : timestamp;
        int64_t timestamp_delta = (int64_t)((uint64_t)timestamp - (uint64_t)base_timestamp);
        int64_t header_bytes = headers_size(rows, row);
        if (header_bytes < 0)
            return -2;
        int64_t size = 1 + varint_size(timestamp_delta) + varint_size(block->count) + varint_size(key_size) +
                       (key_size > 0 ? key_size : 0) + varint_size(value_size) + (value_size > 0 ? value_size : 0) +
                       header_bytes;
        size_t whole = (size_t)(size + varint_size(size));
        if (block->count && block->bytes.size + whole > size_max)
            return index;
        if (reserve(&block->bytes, whole) < 0 || write_varint(&block->bytes, size) < 0 ||
            append(&block->bytes, "", 1) < 0 || write_varint(&block->bytes, timestamp_delta) < 0 ||
            write_varint(&block->bytes, block->count) < 0 || write_bytes(&block->bytes, key, key_size) < 0 ||
            write_bytes(&block->bytes, value, value_size) < 0 || write_headers(&block->bytes, rows, row) < 0)
            return -1;
        if (!block->count)
            block->base_timestamp = block->max_timestamp = timestamp;
        else if (timestamp > block->max_timestamp)
            block->max_timestamp = timestamp;
        block->count++;
    }
    return count;
}

static PyObject *block_add(PyObject *self, PyObject *arguments)
{
    BlockObject *block = (BlockObject *)self;
    PyObject *keys, *values, *headers, *timestamps;
    long long row_count, start, now, size_max;
    Py_buffer which;
    if (!PyArg_ParseTuple(arguments, "OOOOLy*LLL", &keys, &values, &headers, &timestamps, &row_count, &which, &start, &now,
                          &size_max))
        return NULL;
    Rows rows;
    PyObject *answer = NULL;
    int64_t taken = 0, count = which.len / 4;
    const int32_t *numbers = which.buf;
    if (view_rows(keys, values, headers, timestamps, row_count, &rows) < 0)
        goto end;
    if (start < 0 || start > count) {
        PyErr_SetString(PyExc_ValueError, "the start is beyond the rows");
        goto end;
    }
    for (int64_t index = start; index < count; index++)
        if (numbers[index] < 0 || numbers[index] >= row_count) {
            PyErr_SetString(PyExc_ValueError, "there is no such row");
            goto end;
        }
    Py_BEGIN_ALLOW_THREADS
    taken = write_rows(block, &rows, numbers + start, count - start, now, (size_t)size_max);
    Py_END_ALLOW_THREADS
    if (taken == -1)
        PyErr_NoMemory();
    else if (taken == -2)
        PyErr_SetString(PyExc_ValueError, "a header has no key");
    else
        answer = PyLong_FromLongLong(start + taken);
end:
    release_rows(&rows);
    PyBuffer_Release(&which);
    return answer;
}

static PyObject *block_take(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    BlockObject *block = (BlockObject *)self;
    long long count = block->count, base = count ? block->base_timestamp : -1, newest = count ? block->max_timestamp : -1;
    block->count = 0;
    PyObject *bytes = hand_out(&block->bytes);
    return bytes ? Py_BuildValue("(NLLL)", bytes, count, base, newest) : NULL;
}

static PyObject *block_count(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(((BlockObject *)self)->count);
}

static PyObject *block_size(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromSize_t(((BlockObject *)self)->bytes.size);
}

static PyMethodDef block_methods[] = {
    {"add", block_add, METH_VARARGS,
     "add(keys, values, headers, timestamps, row_count, which, start, now_ms, size_max)\n"
     "The rows that `which` (32-bit numbers) names from its `start` on, until the block is full; where in `which` it got."},
    {"take", block_take, METH_NOARGS, "(bytes, count, base_timestamp, max_timestamp), and start anew."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef block_properties[] = {
    {"count", block_count, NULL, "How many records it has.", NULL},
    {"size", block_size, NULL, "How many bytes they take.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot block_slots[] = {
    {Py_tp_doc, "Block(): the records of one batch, made of rows."},
    {Py_tp_init, block_init},
    {Py_tp_dealloc, block_dealloc},
    {Py_tp_methods, block_methods},
    {Py_tp_getset, block_properties},
    {0, NULL},
};

static PyType_Spec block_spec = {
    "penstock.records._columns.Block", sizeof(BlockObject), 0, Py_TPFLAGS_DEFAULT, block_slots,
};

/* ---- which partition -------------------------------------------------------------------------------------------- */

static uint32_t murmur2(const unsigned char *data, uint32_t length)
{
    const uint32_t factor = 0x5bd1e995;
    uint32_t hash = 0x9747b28c ^ length;
    while (length >= 4) {
        uint32_t word;
        memcpy(&word, data, 4); /* little-endian machines only, see columns.py */
        word *= factor;
        word ^= word >> 24;
        word *= factor;
        hash = hash * factor ^ word;
        data += 4;
        length -= 4;
    }
    switch (length) {
    case 3:
        hash ^= (uint32_t)data[2] << 16; /* fall through */
    case 2:
        hash ^= (uint32_t)data[1] << 8; /* fall through */
    case 1:
        hash ^= data[0];
        hash *= factor;
    }
    hash ^= hash >> 13;
    hash *= factor;
    return hash ^ hash >> 15;
}

static PyObject *choose_partitions(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *keys;
    long long row_count, partition_count, otherwise;
    if (!PyArg_ParseTuple(arguments, "OLLL", &keys, &row_count, &partition_count, &otherwise))
        return NULL;
    if (row_count < 0 || partition_count < 1) {
        PyErr_SetString(PyExc_ValueError, "rows and partitions are counted from 0 and 1 on");
        return NULL;
    }
    BinaryView view;
    Growing chosen = {NULL, 0, 0, 0};
    PyObject *answer = NULL;
    if (view_binary(keys, row_count, &view) < 0)
        goto end;
    if (reserve(&chosen, (size_t)row_count * 4) < 0) {
        PyErr_NoMemory();
        goto end;
    }
    for (int64_t row = 0; row < row_count; row++) {
        const char *key;
        int64_t size = element(&view, row, &key);
        int32_t partition = (int32_t)otherwise;
        if (size >= 0)
            partition = (int32_t)((murmur2((const unsigned char *)key, (uint32_t)size) & 0x7fffffff) % partition_count);
        append_int32(&chosen, partition);
    }
    answer = hand_out(&chosen);
end:
    discard(&chosen);
    release_binary(&view);
    return answer;
}

static PyMethodDef functions[] = {
    {"choose_partitions", choose_partitions, METH_VARARGS,
     "choose_partitions(keys, row_count, partition_count, otherwise): 32-bit numbers, `otherwise` for rows without a key."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "penstock.records._columns", "See columns.py, which has the same in Python.", -1, functions,
    NULL, NULL, NULL, NULL,
};

static int add_type(PyObject *module, const char *name, PyType_Spec *spec, PyTypeObject **keep)
{
    PyObject *type = PyType_FromSpec(spec);
    if (type == NULL)
        return -1;
    if (keep)
        *keep = (PyTypeObject *)Py_NewRef(type);
    int result = PyModule_AddObjectRef(module, name, type);
    Py_DECREF(type);
    return result;
}

PyMODINIT_FUNC PyInit__columns(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL)
        return NULL;
    CorruptError = PyErr_NewException("penstock.records._columns.CorruptError", PyExc_ValueError, NULL);
    if (CorruptError == NULL || PyModule_AddObjectRef(module, "CorruptError", CorruptError) < 0 ||
        add_type(module, "Buffer", &buffer_spec, &BufferType) < 0 || add_type(module, "Columns", &columns_spec, NULL) < 0 ||
        add_type(module, "Block", &block_spec, NULL) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
