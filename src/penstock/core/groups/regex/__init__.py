"""Regular expressions by which members subscribe to topics: RE2's syntax and meaning, in linear time.

`compile_expression` reads an expression or raises `ExpressionError`; `Expression.matches` says whether a whole
topic name matches, as Kafka asks it. An expression comes from a client and runs in the coordinator: so there is no
backtracking, the work for one name is at most its length times the size of the program, and that size is bounded;
`Expression.matching` does it in steps.

    character_sets   sets of characters as 128 bits; classes by name (Perl's, POSIX's, Unicode's)
    syntax           the tree of an expression
    parsing          text -> tree, with RE2's rules of what is an error
    program          tree -> program, and running it on a name

Topic names are ASCII, and whether a name matches is all that is asked. So characters beyond ASCII may stand in an
expression and match nothing, and greediness and groups are read and then forgotten.
"""

from typing import Final

from penstock.core.groups.regex.parsing import parse
from penstock.core.groups.regex.program import Expression, assemble
from penstock.core.groups.regex.syntax import ExpressionError

__all__ = ["Expression", "ExpressionError", "compile_expression"]


# Reading an expression takes some ten microseconds per character.
LENGTH_MAX: Final = 10_000


def compile_expression(text: str) -> Expression:
    """The expression `text` describes; raises ExpressionError if it describes none."""
    if len(text) > LENGTH_MAX:
        raise ExpressionError("expression too large", f"more than {LENGTH_MAX} characters")
    return assemble(parse(text))
