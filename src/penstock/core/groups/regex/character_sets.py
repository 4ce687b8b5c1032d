"""Sets of ASCII characters as integers of 128 bits, and the classes that have names.

Bit n stands for the character with code n. What lies beyond ASCII is left out of every set: no topic name has it.
"""

import unicodedata
from typing import Final

NONE: Final = 0
ALL: Final = (1 << 128) - 1

# Beyond ASCII, yet equal to an ASCII letter when case is ignored: the long s and the Kelvin sign.
_FOLDED_INTO_ASCII: Final = {0x017F: "s", 0x212A: "k"}


def of(characters: str) -> int:
    """The set of these characters."""
    bits = 0
    for character in characters:
        if ord(character) < 128:
            bits |= 1 << ord(character)
    return bits


def between(first: int, last: int) -> int:
    """The set of the characters with codes from `first` to `last`, both included."""
    if first > 127:
        return NONE
    return (1 << (min(last, 127) + 1)) - (1 << first)


def complement(bits: int) -> int:
    return ALL ^ bits


def between_ignoring_case(first: int, last: int) -> int:
    """As `between`, with every letter in both cases."""
    bits = between(first, last)
    for code, letter in _FOLDED_INTO_ASCII.items():
        if first <= code <= last:
            bits |= of(letter)
    return ignoring_case(bits)


def ignoring_case(bits: int) -> int:
    """The set with every letter of it in both cases."""
    return bits | (bits & UPPER) << 32 | (bits & LOWER) >> 32


UPPER: Final = between(ord("A"), ord("Z"))
LOWER: Final = between(ord("a"), ord("z"))
DIGITS: Final = between(ord("0"), ord("9"))
LETTERS: Final = UPPER | LOWER
WORD: Final = LETTERS | DIGITS | of("_")
PRINTED: Final = between(ord("!"), ord("~"))
NEWLINE: Final = of("\n")

PERL: Final = {"d": DIGITS, "s": of("\t\n\f\r "), "w": WORD}

POSIX: Final = {
    "alnum": LETTERS | DIGITS,
    "alpha": LETTERS,
    "ascii": ALL,
    "blank": of("\t "),
    "cntrl": between(0, 31) | between(127, 127),
    "digit": DIGITS,
    "graph": PRINTED,
    "lower": LOWER,
    "print": PRINTED | of(" "),
    "punct": PRINTED & ~(LETTERS | DIGITS),
    "space": of("\t\n\v\f\r "),
    "upper": UPPER,
    "word": WORD,
    "xdigit": DIGITS | of("abcdefABCDEF"),
}

# Unicode's general categories, long (Lu) and short (L). ASCII has no character in most of them.
_CATEGORIES: Final = (
    *("Cc", "Cf", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl", "No"),
    *("Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"),
    *("C", "L", "M", "N", "P", "S", "Z"),
)

# Unicode's scripts. But for Latin's letters, every ASCII character is Common.
_SCRIPTS_WITHOUT_ASCII: Final = (
    *("Arabic", "Armenian", "Avestan", "Balinese", "Bamum", "Batak", "Bengali", "Bopomofo", "Brahmi"),
    *("Braille", "Buginese", "Buhid", "Canadian_Aboriginal", "Carian", "Cham", "Cherokee", "Coptic"),
    *("Cuneiform", "Cypriot", "Cyrillic", "Deseret", "Devanagari", "Egyptian_Hieroglyphs"),
    *("Ethiopic", "Georgian", "Glagolitic", "Gothic", "Greek", "Gujarati", "Gurmukhi", "Han"),
    *("Hangul", "Hanunoo", "Hebrew", "Hiragana", "Imperial_Aramaic", "Inherited"),
    *("Inscriptional_Pahlavi", "Inscriptional_Parthian", "Javanese", "Kaithi", "Kannada", "Katakana"),
    *("Kayah_Li", "Kharoshthi", "Khmer", "Lao", "Lepcha", "Limbu", "Linear_B", "Lisu", "Lycian"),
    *("Lydian", "Malayalam", "Mandaic", "Meetei_Mayek", "Mongolian", "Myanmar", "New_Tai_Lue", "Nko"),
    *("Ogham", "Ol_Chiki", "Old_Italic", "Old_Persian", "Old_South_Arabian", "Old_Turkic", "Oriya"),
    *("Osmanya", "Phags_Pa", "Phoenician", "Rejang", "Runic", "Samaritan", "Saurashtra", "Shavian"),
    *("Sinhala", "Sundanese", "Syloti_Nagri", "Syriac", "Tagalog", "Tagbanwa", "Tai_Le", "Tai_Tham"),
    *("Tai_Viet", "Tamil", "Telugu", "Thaana", "Thai", "Tibetan", "Tifinagh", "Ugaritic", "Unknown"),
    *("Vai", "Yi"),
)


def _category(name: str) -> int:
    members = (chr(code) for code in range(128) if unicodedata.category(chr(code)).startswith(name))
    return of("".join(members))


UNICODE: Final = {
    "Any": ALL,
    "Latin": LETTERS,
    "Common": complement(LETTERS),
    **{name: _category(name) for name in _CATEGORIES},
    **dict.fromkeys(_SCRIPTS_WITHOUT_ASCII, NONE),
}
