"""What a broker has written, read from its own files."""

from pathlib import Path

from penstock.records.batch import BatchHeader, headers


def log_files(data: Path, topic: str, partition: int = 0) -> list[Path]:
    return sorted((data / f"{topic}-{partition}").glob("*.log"))


def batches_of(file: Path) -> list[BatchHeader]:
    return [header for _, header in headers(file.read_bytes())]


def batches(data: Path, topic: str, partition: int = 0) -> list[BatchHeader]:
    return [header for file in log_files(data, topic, partition) for header in batches_of(file)]


def codecs(data: Path, topic: str, partition: int = 0) -> set[str]:
    return {header.codec.name.lower() for header in batches(data, topic, partition)}
