"""Which brokers a command is about, and what they say: for `status`, `trace`, `decisions` and others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from inspect import Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, NamedTuple, NoReturn, ParamSpec
from urllib.parse import urlsplit

import typer

from roost.cli.console import warn
from roost.cli.contexts import Context, ContextOption, chosen, lacks, login, path_of
from roost.errors import UserError

if TYPE_CHECKING:
    from roost.runtime.admin_client import Access, NoAnswerError

StateOption = Annotated[
    Path | None,
    typer.Option("--state", metavar="DIR", help="The folder of `roost up`.", show_default=".roost"),
]
AdminOption = Annotated[
    list[str] | None,
    typer.Option(
        "--admin", metavar="URL", help="Where a broker has its [admin] port. May be repeated."
    ),
]
UserOption = Annotated[
    str | None,
    typer.Option("--user", help="Who asks, where security is on; else ROOST_USER."),
]
TokenOption = Annotated[
    str | None,
    typer.Option("--token", help="Its token; rather ROOST_TOKEN, which other users can't see."),
]
AuthorityOption = Annotated[
    Path | None,
    typer.Option(
        "--authority",
        "--ca",
        metavar="FILE",
        help="PEM; checks the certificates of brokers at https://.",
    ),
]

P = ParamSpec("P")
# A broker that listens here says nothing of where it is.
EVERYWHERE = ("0.0.0.0", "::", "")

OK, LINK_DOWN, TROUBLE, REFUSED, NO_ANSWER = "ok", "link down", "trouble", "refused", "no answer"
# What is shown of a status.
NEEDED = {"broker", "host", "port", "pid", "uptime_s", "sessions", "attached", "subscriptions"}
NEEDED |= {"waiting", "links", "load", "trouble"}


class Target(NamedTuple):
    """A broker to ask."""

    url: str
    name: str = ""  # as far as it is known before it is asked
    address: str = ""
    pid: int | None = None

    @property
    def label(self) -> str:
        """What people know it by."""
        return self.name or self.url


class Fleet(NamedTuple):
    """The brokers that a command is about."""

    targets: Sequence[Target]
    access: Access
    guessed: bool = False  # nobody has said which: perhaps there is none


class Sight(NamedTuple):
    """A broker, as it says that it is; or why it does not."""

    target: Target
    status: Mapping[str, Any] | None
    problem: str = ""
    refused: bool = False  # it has answered, if only that

    @property
    def name(self) -> str:
        return str(self.status["broker"]) if self.status else self.target.name or self.target.url

    @property
    def address(self) -> str:
        if self.status is None:
            return self.target.address
        host, port = str(self.status["host"]), self.status["port"]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def reachable_at(self) -> str:
        """The address, where the host is that of its page if it listens on all that its machine has."""
        host = str(self.status["host"]) if self.status else ""
        if host not in EVERYWHERE:
            return self.address
        known = urlsplit(self.target.url).hostname or host
        shown = f"[{known}]" if ":" in known else known
        return f"{shown}:{self.status['port']}" if self.status else self.target.address

    @property
    def pid(self) -> int | None:
        return int(self.status["pid"]) if self.status else self.target.pid

    @property
    def load(self) -> Mapping[str, Any]:
        """Empty until the broker has sampled it."""
        return self.status["load"] if self.status else {}

    @property
    def links(self) -> Mapping[str, Mapping[str, Any]]:
        return self.status["links"] if self.status else {}

    @property
    def links_down(self) -> list[str]:
        return [name for name, link in self.links.items() if not link["up"]]

    @property
    def waiting(self) -> int:
        """What has been said and not been acknowledged, to clients and neighbours."""
        clients = int(self.status["waiting"]) if self.status else 0
        return clients + sum(int(link["waiting"]) for link in self.links.values())

    @property
    def utilisation(self) -> float:
        """The load that counts, as the balancers see it: 1 is all that a broker can do."""
        load = self.load
        return float(max(load["input_utilisation"], load["output_utilisation"])) if load else 0.0

    @property
    def state(self) -> str:
        if self.status is None:
            return REFUSED if self.refused else NO_ANSWER
        return TROUBLE if self.status["trouble"] else LINK_DOWN if self.links_down else OK

    @property
    def role(self) -> str:
        """Of a node of a broker that has a standby: which it is; else ""."""
        pair = (self.status or {}).get("standby")
        return f"{pair['role']}, epoch {pair['epoch']}" if pair else ""

    @property
    def stands_by(self) -> bool:
        """It is the other node of a broker, or waits for that."""
        pair = (self.status or {}).get("standby")
        return pair is not None and pair["role"] != "leader"

    @property
    def shown_state(self) -> str:
        """With the role."""
        return f"{self.state} ({self.role})" if self.role else self.state

    @property
    def trouble(self) -> str:
        """In a sentence; "" if there is none."""
        if self.status is None:
            return self.problem
        down = f"no link to {', '.join(self.links_down)}" if self.links_down else ""
        return "; ".join(filter(None, (str(self.status["trouble"]), down)))

    @property
    def warnings(self) -> list[str]:
        """What an operator should know though it is no trouble. Links are spoken of elsewhere."""
        said = self.status.get("warnings", ()) if self.status else ()
        return [f"{x['what']}: {x['detail']}" for x in said if x["what"] != "link down"]


def about_fleet(command: Callable[Concatenate[Fleet, P], None]) -> Callable[..., None]:
    """A command whose first parameter is a fleet, with the options of `fleet_of` in place of it."""
    options = list(signature(fleet_of, eval_str=True).parameters.values())
    _, *own = signature(command, eval_str=True).parameters.values()

    @wraps(command)
    def asked(*arguments: P.args, **given: P.kwargs) -> None:
        chosen = {option.name: given.pop(option.name) for option in options}
        command(fleet_of(**chosen), *arguments, **given)  # type: ignore[arg-type]

    every = [*own, *options]
    asked.__signature__ = Signature(every)  # type: ignore[attr-defined]
    asked.__annotations__ = {parameter.name: parameter.annotation for parameter in every}
    return asked


def fleet_of(
    state: StateOption = None,
    admin: AdminOption = None,
    user: UserOption = None,
    token: TokenOption = None,
    authority: AuthorityOption = None,
    context: ContextOption = None,
) -> Fleet:
    """What the options say: these addresses, that federation, a context, or what there is on this machine."""
    from roost.runtime.admin_client import DEFAULT_URL, Access
    from roost.runtime.federation import DEFAULT_STATE, read

    places = {"--state": state is not None, "--admin": bool(admin), "--context": bool(context)}
    if len(said := [option for option, is_said in places.items() if is_said]) > 1:
        raise UserError(f"{' and '.join(said)} say different brokers; expected one of them")
    access = Access(*login(user, token, Context()), authority)
    if admin:
        return fleet_at(admin, access)
    found = chosen(context) if state is None else None
    if found is not None:
        if not found.named and read(DEFAULT_STATE) is not None:
            raise UserError(
                f"the context {found.name} is in use, and a federation was started from this folder; say"
                f" which is meant, with --state {DEFAULT_STATE} or --context {found.name}"
            )
        if not found.context.admin:
            raise lacks(found.name, "admin", "https://b0.example:7412")
        file = authority or path_of(found.context.authority)
        return fleet_at(found.context.admin, Access(*login(user, token, found.context), file))
    federation = read(state or DEFAULT_STATE)
    if federation is not None:
        targets = [
            Target(x.admin_url, x.name, x.address, x.process.pid if x.process else None)
            for x in federation.members
        ]
        return Fleet(targets, access)
    if state is not None:
        raise UserError(
            f"{state}: no federation was started from this folder; start one with"
            f" `roost up chain --brokers 3 --state {state}`"
        )
    return Fleet([Target(DEFAULT_URL)], access, guessed=True)


def fleet_at(urls: Sequence[str], access: Access) -> Fleet:
    """The brokers at these addresses; with a warning where a token would be seen on its way."""
    from roost.runtime.admin_client import token_in_clear

    if exposed := list(filter(None, (token_in_clear(url, access) for url in urls))):
        where = ", ".join(exposed)
        warn(f"the token goes to {where} for everybody on the way to read; expected https://")
    return Fleet([Target(url) for url in urls], access)


def look(fleet: Fleet) -> list[Sight]:
    """All of them, at the same time. UserError if there seems to be none at all."""
    from roost.runtime.admin_client import AdminError, NoAnswerError, ask_all

    answers = ask_all([target.url for target in fleet.targets], "/status", access=fleet.access)
    sights = []
    for target, answer in zip(fleet.targets, answers, strict=True):
        if not isinstance(answer, AdminError):
            sights.append(sight_of(target, answer))
        elif fleet.guessed and isinstance(answer, NoAnswerError):
            nothing_there(answer)
        else:
            sights.append(Sight(target, None, str(answer), not isinstance(answer, NoAnswerError)))
    return sights


def speaking(fleet: Fleet) -> Fleet:
    """Without the nodes that are not the broker just now, if the other one is."""
    sights = look(fleet)
    led = {sight.name for sight in sights if not sight.stands_by}
    targets = [sight.target for sight in sights if not sight.stands_by or sight.name not in led]
    return fleet._replace(targets=targets)


def answers_of(
    fleet: Fleet, path: str, body: object = None
) -> Iterator[tuple[Target, dict[str, Any]]]:
    """What each says, of those that do as they are told; at the end a UserError names the others."""
    from roost.runtime.admin_client import AdminError, NoAnswerError, ask_all

    fleet = speaking(fleet)
    answers = ask_all([target.url for target in fleet.targets], path, body, fleet.access)
    problems = []
    for target, answer in zip(fleet.targets, answers, strict=True):
        if not isinstance(answer, AdminError):
            yield target, answer
        elif fleet.guessed and isinstance(answer, NoAnswerError):
            nothing_there(answer)
        else:
            problems.append(f"{target.name} ({answer})" if target.name else str(answer))
    if problems and len(answers) == 1:
        raise UserError(problems[0])
    if problems:
        head = f"{len(problems)} of {len(answers)} brokers refused, or did not answer:"
        raise UserError("\n  ".join([head, *problems]))


def sight_of(target: Target, answer: Mapping[str, Any]) -> Sight:
    """Others speak JSON over HTTP, too."""
    if not NEEDED <= answer.keys():
        return Sight(target, None, f"{target.url}: it answers, but not as a broker does", True)
    return Sight(target, answer)


def nothing_there(problem: NoAnswerError) -> NoReturn:
    """For those who have not said which brokers they mean, and there are none."""
    raise UserError(
        f"no federation was started from this folder, and {problem}; start a federation with"
        " `roost up chain --brokers 3` or a broker with `roost broker`, or say where one is"
        " with --state DIR, --admin URL or a context"
    )
