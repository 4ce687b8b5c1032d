"""`penstock sim`: run the broker in a simulation that injects faults.

A seed is a plan of operations and faults, and always the same run. `run --seeds N` tries many seeds and says which
failed; `run --seed S` runs one, and, if it fails, finds a smaller plan that fails too and writes it to a file.
"""

import secrets
import time
from argparse import Namespace
from pathlib import Path

from penstock.base.errors import UserError
from penstock.cli.main import FAILED, OK
from penstock.cli.output import count_of, print_json, print_lines
from penstock.cli.parsing import Parser, add_json, add_verb, add_verbs, not_negative, positive
from penstock.cli.progress import StatusLine
from penstock.sim.cluster_plan import make_cluster_plan
from penstock.sim.coordination_plan import make_coordination_plan
from penstock.sim.entries import describe
from penstock.sim.plan import Plan, make_plan
from penstock.sim.run import RunOutcome, run_plan
from penstock.sim.shrink import shrink
from penstock.sim.summary import Summary

_FIRST_SEED_BELOW = 10**9
_PROBLEMS_SHOWN_MAX = 10


def add_arguments(parser: Parser) -> None:
    parser.usage = f"{parser.prog} VERB [options]"
    verbs = add_verbs(parser)
    run = add_verb(verbs, "run", "run operations and faults, and check what clients observed", "[options]")
    what = run.add_mutually_exclusive_group()
    what.add_argument("--seeds", metavar="N", type=positive, default=100, help="how many seeds (default 100)")
    what.add_argument(
        "--seed", metavar="S", type=not_negative, help="run one seed; if it fails, shrink its plan"
    )
    what.add_argument("--from", metavar="FILE", type=Path, dest="file", help="a plan from a file")
    run.add_argument("--first", metavar="S", type=not_negative, help="the first seed (default: random)")
    _add_families(run)
    add_json(run, "print a summary as JSON")
    show = add_verb(verbs, "describe", "show the operations and faults of a seed", "SEED [options]")
    show.add_argument("seed", metavar="SEED", type=not_negative)
    _add_families(show)
    add_json(show, "print the plan as JSON, for `run --from`")


def _add_families(parser: Parser) -> None:
    families = parser.add_mutually_exclusive_group()
    families.add_argument(
        "--coordination",
        action="store_true",
        help="plans with groups and transactions",
    )
    families.add_argument("--cluster", action="store_true", help="plans with several brokers")


def _plan_of(seed: int, arguments: Namespace) -> Plan:
    if arguments.cluster:
        return make_cluster_plan(seed)
    return make_coordination_plan(seed) if arguments.coordination else make_plan(seed)


def _family_option(arguments: Namespace) -> str:
    if arguments.cluster:
        return "--cluster "
    return "--coordination " if arguments.coordination else ""


def run(arguments: Namespace) -> int:
    if arguments.verb == "describe":
        return _describe(arguments)
    if arguments.seed is not None:
        return _run_one(_plan_of(arguments.seed, arguments), arguments, smaller=True)
    if arguments.file is not None:
        return _run_one(_plan_in(arguments.file), arguments, smaller=False)
    return _run_many(arguments)


def _describe(arguments: Namespace) -> int:
    plan = _plan_of(arguments.seed, arguments)
    if arguments.json:
        print(plan.to_json())
    else:
        print_lines(_described(plan))
    return OK


def _described(plan: Plan) -> list[str]:
    return [
        f"seed {plan.seed}: {count_of(len(plan.operations), 'operation')}, {count_of(len(plan.faults), 'fault')}; "
        f"{plan.finish} before all is read",
        *([f"{plan.nodes} nodes"] if plan.is_of_cluster else ()),
        *(
            f"{topic.name}: {topic.partitions} partition(s), "
            + (f"{topic.replication_factor} replica(s), " if plan.is_of_cluster else "")
            + ", ".join(f"{name}={value}" for name, value in topic.configs.items())
            for topic in plan.topics
        ),
        *(f"{writer.name}: acks={writer.acks}, idempotent={writer.idempotent}" for writer in plan.writers),
        *(
            f"{member.name}: group {member.group}, reads {', '.join(member.topics)}"
            + (f" and copies to {member.copies_to}" if member.copies_to else "")
            for member in plan.members
        ),
        *(f"{each.name}: transactions of at most {each.timeout_ms} ms" for each in plan.transactors),
        *map(describe, plan.entries),
    ]


def _plan_in(path: Path) -> Plan:
    try:
        return Plan.from_json(path.read_text())
    except ValueError as error:
        raise UserError(f"{path} holds no plan: {error}") from error


# ---- one seed


def _run_one(plan: Plan, arguments: Namespace, *, smaller: bool) -> int:
    started_at = time.process_time()
    outcome = run_plan(plan)
    if outcome.ok or not smaller:
        _tell(plan, outcome, arguments, time.process_time() - started_at)
        return OK if outcome.ok else FAILED
    status = StatusLine()
    kind = outcome.kinds[0]  # only this failure counts while the plan shrinks

    def fails(shorter: Plan) -> bool:
        status.show(f"plan: {len(shorter.entries)} entries")
        return kind in run_plan(shorter).kinds

    plan = shrink(plan, fails)
    status.clear()
    file = Path(f"penstock-sim-{plan.seed}.json")
    file.write_text(plan.to_json())
    if not arguments.json:
        print_lines(_described(plan))
        print(f"written to {file}; run it again with: penstock sim run --from {file}")
    _tell(plan, run_plan(plan), arguments, time.process_time() - started_at)
    return FAILED


def _tell(plan: Plan, outcome: RunOutcome, arguments: Namespace, cpu_seconds: float) -> None:
    summary = Summary()
    summary.add(plan.seed, outcome)
    if arguments.json:
        print_json(
            {
                **summary.as_json(cpu_seconds=cpu_seconds),
                "problems": list(map(str, outcome.problems)),
                "hash": outcome.hash,
            }
        )
        return
    print_lines(_problem_lines(outcome))
    print_lines(summary.lines(cpu_seconds=cpu_seconds))
    print(f"history {outcome.hash}")


def _problem_lines(outcome: RunOutcome) -> list[str]:
    shown = [f"  {problem}" for problem in outcome.problems[:_PROBLEMS_SHOWN_MAX]]
    more = len(outcome.problems) - len(shown)
    return [*shown, f"  and {more:,} more"] if more else shown


# ---- many seeds


def _run_many(arguments: Namespace) -> int:
    first = secrets.randbelow(_FIRST_SEED_BELOW) if arguments.first is None else arguments.first
    summary = Summary()
    status = StatusLine()
    started_at = time.process_time()
    for seed in range(first, first + arguments.seeds):
        outcome = run_plan(_plan_of(seed, arguments))
        summary.add(seed, outcome)
        if not outcome.ok and not arguments.json:
            status.clear()
            family = _family_option(arguments)
            print(
                f"seed {seed} failed; to see it and make it smaller: penstock sim run {family}--seed {seed}"
            )
            print_lines(_problem_lines(outcome))
        status.show(f"seed: {summary.runs:,} of {arguments.seeds:,}, {summary.faults:,} faults")
    status.clear()
    cpu_seconds = time.process_time() - started_at
    if arguments.json:
        print_json({"first_seed": first, **summary.as_json(cpu_seconds=cpu_seconds)})
    else:
        print(f"seeds {first} to {first + arguments.seeds - 1}")
        print_lines(summary.lines(cpu_seconds=cpu_seconds))
    return FAILED if summary.failed_seeds else OK
