"""Programs in Java, compiled when they are needed."""

import os
import subprocess
from pathlib import Path

from peers import tools
from peers.tools import SHORT_LIVED

MEMBER = Path(__file__).with_name("GroupMember.java")


def compiled_member(folder: Path) -> list[str]:
    return compiled(MEMBER, folder)


def compiled(source: Path, folder: Path) -> list[str]:
    """The command that runs it; its classes are put into the folder."""
    jars = tools.locate("kafka")
    compiler = [str(tools.locate("jdk")), *SHORT_LIVED, "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    class_path = os.pathsep.join(map(str, jars.glob("*.jar")))  # called like this it knows no wildcards
    subprocess.run([*compiler, "-cp", class_path, "-d", str(folder), str(source)], check=True, timeout=60)
    return [tools.java(), *SHORT_LIVED, "-Xmx256m", "-cp", f"{folder}{os.pathsep}{jars}/*", source.stem]
