"""`meta.properties`: the cluster and broker that a data directory belongs to, and the version of its format.

`penstock.data.version` is the level of the feature `penstock.version` that was finalised when the directory was last
written to: an older program, which does not support that level, refuses to open it. `penstock.metadata` tells where
the metadata of the partitions are: in the directory (`embedded`), or in the ZooKeeper of the cluster that `cluster.id`
names. If it is missing, an earlier version wrote the file, and the other files decide.
"""

from typing import NamedTuple

from penstock.base.errors import UserError
from penstock.base.features import LEVELS_BEFORE, PENSTOCK_VERSION, SUPPORTED
from penstock.base.ids import format_id
from penstock.base.version import VERSION
from penstock.storage.ownership import METADATA, has_metadata, refuse_without_metadata
from penstock.world.disk import Disk, read_file, write_file_atomically
from penstock.world.entropy import Entropy

META_PROPERTIES = "meta.properties"

_KAFKA_VERSION = "1"
_DATA_VERSION = "penstock.data.version"
_METADATA_IN = "penstock.metadata"
_EMBEDDED, _ZOOKEEPER = "embedded", "zookeeper"
_IN_CLUSTER = {None: None, _EMBEDDED: False, _ZOOKEEPER: True}


class MetaProperties(NamedTuple):
    """Ids are 22 characters of base64, as Kafka prints them."""

    cluster_id: str
    node_id: int
    directory_id: str
    data_version: int = LEVELS_BEFORE[PENSTOCK_VERSION]
    in_cluster: bool | None = None  # None: the file does not say


def read_or_create(
    disk: Disk,
    *,
    node_id: int,
    cluster_id: str | None,
    entropy: Entropy,
    in_cluster: bool | None = None,
    data_version_max: int = SUPPORTED[PENSTOCK_VERSION].highest,
) -> MetaProperties:
    """Read the file, or create it in a new directory. UserError if it belongs to another broker, or is too new.

    Without `cluster_id` any cluster is accepted, and a new directory gets a new id. `in_cluster`: whether the broker is
    part of a cluster; None: not checked. A new directory gets the first data version until that of the cluster is
    known. May block.
    """
    try:
        found = _read(disk, data_version_max)
    except FileNotFoundError:
        if in_cluster is not None and has_metadata(disk):
            raise UserError(
                f"the data directory has metadata of a standalone broker ({METADATA}) and no {META_PROPERTIES}:"
                " restore that file from a backup, or choose another directory with --data-dir"
            ) from None
        if in_cluster is False:
            refuse_without_metadata(disk)
        created = MetaProperties(
            cluster_id=cluster_id or format_id(entropy.random_bytes(16)),
            node_id=node_id,
            directory_id=format_id(entropy.random_bytes(16)),
            in_cluster=in_cluster,
        )
        _write(disk, created)
        return created
    if found.node_id != node_id:
        raise UserError(
            f"the data directory belongs to node {found.node_id}, and this is node {node_id}:"
            " choose another directory, or the node id it was made for"
        )
    stated = found if in_cluster is None else found._replace(in_cluster=_own_kind(disk, found, in_cluster))
    if cluster_id is not None and found.cluster_id != cluster_id:
        raise UserError(
            f"the data directory belongs to cluster {found.cluster_id}, and this is cluster {cluster_id}:"
            " start it with the ZooKeeper of its own cluster (--zookeeper), or choose another directory"
        )
    if stated != found:
        _write(disk, stated)
    return stated


def _own_kind(disk: Disk, found: MetaProperties, in_cluster: bool) -> bool:
    """Whether the directory belongs to a broker of a cluster; UserError if the broker is of the other kind."""
    of_cluster = found.in_cluster
    if of_cluster is None:
        of_cluster = in_cluster and not has_metadata(disk)
    if of_cluster and not in_cluster:
        raise UserError(
            f"the data directory belongs to broker {found.node_id} of cluster {found.cluster_id}, whose metadata are in"
            " ZooKeeper: start it with --zookeeper, or choose another directory with --data-dir"
        )
    if in_cluster and not of_cluster:
        raise UserError(
            f"the data directory belongs to a standalone broker, whose metadata are in {METADATA}: start it without"
            " --zookeeper, or choose another directory with --data-dir"
        )
    if not in_cluster:
        refuse_without_metadata(disk)
    return of_cluster


def with_data_version(disk: Disk, meta: MetaProperties, data_version: int) -> MetaProperties:
    """Record another data version. May block."""
    changed = meta._replace(data_version=data_version)
    if changed != meta:
        _write(disk, changed)
    return changed


def _read(disk: Disk, data_version_max: int) -> MetaProperties:
    lines = read_file(disk, META_PROPERTIES).decode("utf-8", "replace").splitlines()
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    values = {name.strip(): value.strip() for name, value in pairs}
    data_version = _refuse_newer(values, data_version_max)
    try:
        return MetaProperties(
            values["cluster.id"],
            int(values["node.id"]),
            values["directory.id"],
            data_version,
            _IN_CLUSTER[values.get(_METADATA_IN)],
        )
    except (KeyError, ValueError) as error:
        raise UserError(
            f"{META_PROPERTIES} in the data directory is not readable ({error}): restore it from a backup,"
            " or start with an empty directory"
        ) from error


def _refuse_newer(values: dict[str, str], data_version_max: int) -> int:
    """The directory's data version; UserError if this program does not support it."""
    kafka_version = values.get("version", _KAFKA_VERSION)
    data_version = values.get(_DATA_VERSION, str(LEVELS_BEFORE[PENSTOCK_VERSION]))
    too_new = (
        not (data_version.isascii() and data_version.isdecimal()) or int(data_version) > data_version_max
    )
    if too_new or kafka_version != _KAFKA_VERSION:
        raise UserError(
            f"the data directory was written by a newer version: {PENSTOCK_VERSION} {data_version} (format"
            f" {kafka_version}) is needed, and this program ({VERSION}) knows {PENSTOCK_VERSION} up to"
            f" {data_version_max} (format {_KAFKA_VERSION}). Install the version that wrote it, or a newer one"
        )
    return int(data_version)


def _write(disk: Disk, meta: MetaProperties) -> None:
    values = {
        "cluster.id": meta.cluster_id,
        "directory.id": meta.directory_id,
        "node.id": str(meta.node_id),
        _DATA_VERSION: str(meta.data_version),
        "version": _KAFKA_VERSION,
    }
    if meta.in_cluster is not None:
        values[_METADATA_IN] = _ZOOKEEPER if meta.in_cluster else _EMBEDDED
    content = "".join(f"{name}={value}\n" for name, value in values.items())
    write_file_atomically(disk, META_PROPERTIES, content.encode())
