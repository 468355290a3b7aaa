"""`warren pipeline NAME`: the jobs as commands.

The options of a command are the fields of its job's options, and of the session's. The function
beside each job here shows its result; an error becomes one line and an exit code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields
from typing import Annotated, Any, Final, get_args, get_type_hints

import typer

from pyspark_warren.errors import InvalidOption, WarrenError
from pyspark_warren.jobs.audit import Audited, AuditOptions, audit
from pyspark_warren.jobs.connecting import BrokerOptions
from pyspark_warren.jobs.convert import Converted, ConvertOptions, convert
from pyspark_warren.jobs.dead_letters import DeadLetters, DeadLettersOptions, dead_letters
from pyspark_warren.jobs.ingest import Ingested, IngestOptions, ingest
from pyspark_warren.jobs.parameters import Parameter
from pyspark_warren.jobs.queries import reason_of
from pyspark_warren.jobs.replay import Replayed, ReplayOptions, replay
from pyspark_warren.jobs.session import SessionOptions, make_session
from pyspark_warren.jobs.showing import ShownWatch, stopped_by_signals
from pyspark_warren.jobs.telemetry import TelemetryOptions, telemetry
from pyspark_warren.jobs.windows import Telemetry

EXIT_FAILED: Final = 1
# Not 2, which is what a word too many on the command line ends with.
EXIT_FOUND: Final = 3
EXIT_USAGE: Final = 64

app = typer.Typer(
    name="warren pipeline",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def pipeline() -> None:
    """Jobs on queues. Spark runs them: on this machine, on a cluster, or by Connect (--master)."""


@dataclass(frozen=True)
class Job:
    name: str
    options: type
    run: Callable[..., Any]
    show: Callable[[Any], str]
    help: str


def _many(number: int, one: str, several: str = "") -> str:
    return f"{number} {one if number == 1 else several or one + 's'}"


def _show_ingested(done: Ingested) -> str:
    return (
        f"{_many(done.messages, 'message')} and {done.quarantined} in quarantine, in "
        f"{_many(done.batches, 'batch', 'batches')}"
    )


def _show_converted(done: Converted) -> str:
    rows = [f"{_many(count, 'row')} in {name}" for name, count in done.rows.items()]
    return f"{' and '.join(rows) or 'no rows'}: the lake has Delta tables now"


def _show_dead_letters(found: DeadLetters) -> str:
    names = ("queue", "reason", "origin", "routing_key", "error")
    lines = ["\t".join(("messages", *names))]
    lines += ["\t".join((str(n), *key)) for key, n in found.by(*names).most_common()]
    sent = f"; {found.redriven} sent back" if found.redriven else ""
    return "\n".join([*lines, f"{found.messages} dead letters{sent}"])


def _show_replayed(done: Replayed) -> str:
    verb = "published" if done.is_published else "would be published (--yes to do so)"
    return f"{done.messages} messages {verb}"


def _show_audited(done: Audited) -> str:
    return "\n".join(done.lines())


def _show_telemetry(found: Telemetry) -> str:
    lines = [f"{node}: {found.diagnosis(node)}" for node in found.nodes]
    return "\n".join([*lines, _many(len(found.windows), "window")])


JOBS: Final = (
    Job(
        "ingest",
        IngestOptions,
        ingest,
        _show_ingested,
        """Put what streams have into a lake of Delta tables, each message once.

        The lake has two tables, messages and quarantine, each by queue and hour. Without --once it
        goes on until SIGINT or SIGTERM. Run it again to go on from where it was, whatever ended it.
        """,
    ),
    Job(
        "convert",
        ConvertOptions,
        convert,
        _show_converted,
        """Make Delta tables of a lake that an earlier version has filled.

        The files are written anew and the old ones deleted; ingest goes on with the same
        checkpoint. Stop ingest, and whoever reads the files, before.
        """,
    ),
    Job(
        "replay",
        ReplayOptions,
        replay,
        _show_replayed,
        """Publish messages of a lake, or of streams, once more.

        Says what would be published where; with --yes, publishes it. Each message has an id, the
        same every time, so that a queue that deduplicates takes it once.
        """,
    ),
    Job(
        "deadletters",
        DeadLettersOptions,
        dead_letters,
        _show_dead_letters,
        """Count dead letters by reason, queue, key, error and time; send them back if wanted.

        Dead-letter queues are read and left as they are, unless --redrive is given.
        """,
    ),
    Job(
        "audit",
        AuditOptions,
        audit,
        _show_audited,
        """Compare what the nodes of a cluster have on their disks, message by message.

        Ends with code 3 if copies of a queue or stream differ, a node lacks one, something is
        damaged, or a confirmed message is missing.
        """,
    ),
    Job(
        "telemetry",
        TelemetryOptions,
        telemetry,
        _show_telemetry,
        """Sum up the telemetry of a broker, and name what holds it up.

        Rates, depth, age of heads, flow, processors and failovers, in windows of time; and the
        bottleneck of each node: a starved machine, routing CPU, a queue, the disk or an alarm.
        """,
    ),
)


def _execute(job: Job, values: dict[str, Any]) -> None:
    with ShownWatch(job.name) as watch:
        try:
            session = SessionOptions(**{f.name: values[f.name] for f in fields(SessionOptions)})
            session.check()
            options = job.options(**{f.name: values[f.name] for f in fields(job.options)})
            options.check()
            if isinstance(options, BrokerOptions):
                options.check_ports()
            spark = make_session(job.name, session)
            try:
                with stopped_by_signals(watch):
                    watch.begin()
                    result = job.run(spark, options, watch)
            finally:
                spark.stop()
        except InvalidOption as error:
            _fail(f"{job.name}: {error}", EXIT_USAGE)
        except WarrenError as error:
            _fail(f"{job.name}: {error}", EXIT_FAILED)
        except Exception as error:
            if not type(error).__module__.startswith(("pyspark", "py4j")):
                raise
            _fail(f"{job.name}: {reason_of(error)}", EXIT_FAILED)
    typer.echo(job.show(result))
    if not getattr(result, "is_sound", True):
        raise typer.Exit(EXIT_FOUND)


def _fail(text: str, code: int) -> None:
    typer.echo(f"Error: {text}", err=True)
    raise typer.Exit(code)


def _parameter(field: Field[Any], hints: dict[str, Any]) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.default is MISSING else field.default
    plain, parameter = get_args(hints[field.name])
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[plain, _option(parameter)],
    )


def _option(parameter: Parameter) -> Any:
    return typer.Option(
        *(() if parameter.flag is None else (parameter.flag,)),
        help=parameter.help,
        metavar=parameter.metavar,
        envvar=parameter.envvar,
        min=parameter.min,
        show_default=parameter.show_default,
    )


def _command(job: Job) -> Callable[..., None]:
    def command(**values: Any) -> None:
        _execute(job, values)

    parameters = [
        _parameter(field, get_type_hints(owner, include_extras=True))
        for owner in (job.options, SessionOptions)
        for field in fields(owner)
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


for _job in JOBS:
    app.command(_job.name, help=inspect.cleandoc(_job.help))(_command(_job))
