"""A request and its answer: from the bytes of one message to those of another.

What HTTP needs around it is in `server`. Everything that can go wrong becomes a fault in the versions of the
request, so that whoever asked can read it.
"""

from __future__ import annotations

import time

from roost.client import ClientError, ConnectError, Refused, Unreachable
from roost.gateway.ws_eventing import answers
from roost.gateway.ws_eventing.answers import ACTION_HEADER, Reply
from roost.gateway.ws_eventing.envelope import Envelope, open_envelope
from roost.gateway.ws_eventing.expiry import Wanted, granted
from roost.gateway.ws_eventing.faults import FaultError
from roost.gateway.ws_eventing.logins import Clients, Login, NotLoggedInError
from roost.gateway.ws_eventing.records import Record
from roost.gateway.ws_eventing.requests import (
    GetStatus,
    Publish,
    Renew,
    Subscribe,
    Unsubscribe,
    addressing_of,
    request_of,
    version_of,
)
from roost.gateway.ws_eventing.subscriptions import Subscriptions, new_id
from roost.gateway.ws_eventing.versions import SOAP_11, SOAP_12, Eventing
from roost.gateway.ws_eventing.xml_tree import XmlError
from roost.language import LanguageError
from roost.runtime.gateway_settings import GatewaySettings


class Service:
    """Answers messages."""

    def __init__(
        self, settings: GatewaySettings, clients: Clients, subscriptions: Subscriptions
    ) -> None:
        self._settings = settings
        self._clients = clients
        self._subscriptions = subscriptions

    async def answer(self, data: bytes, login: Login, here: str, *, soap_11: bool) -> Reply:
        """The answer to a message. `here` is the address that it came to.

        NotLoggedInError if the broker does not let them in.
        """
        try:
            envelope = open_envelope(data)
        except (XmlError, FaultError) as error:
            said = error if isinstance(error, FaultError) else FaultError("bad message", str(error))
            soap = SOAP_11 if soap_11 else SOAP_12
            return answers.fault_without_envelope(said, soap, 500 if soap_11 else 400)
        try:
            return await self._carried_out(envelope, login, here)
        except FaultError as error:
            return answers.fault(envelope, error)
        except LanguageError as error:
            return answers.fault(envelope, FaultError("bad message", str(error)))
        except ClientError as error:
            is_no = isinstance(error, Refused | ConnectError) and not isinstance(error, Unreachable)
            return answers.fault(
                envelope, FaultError("refused" if is_no else "not now", str(error))
            )

    def not_logged_in(self, error: NotLoggedInError, *, soap_11: bool) -> Reply:
        """To those whom the broker does not let in."""
        soap = SOAP_11 if soap_11 else SOAP_12
        return answers.fault_without_envelope(FaultError("refused", str(error)), soap, 401)

    async def _carried_out(self, envelope: Envelope, login: Login, here: str) -> Reply:
        now = time.time()
        request = request_of(envelope, now)
        await self._clients.check(login)
        if isinstance(request, Publish):
            event = request.event
            headers = {ACTION_HEADER: request.action} if request.action else {}
            await self._clients.publish(
                login, event.attributes, event.payload, event.content_type, headers
            )
            return answers.accepted()
        if isinstance(request, Subscribe):
            record = self._record(envelope, request, login, here, now)
            await self._subscriptions.subscribe(record)
            return answers.subscribed(envelope, record, now)
        record = self._found(request, login, now)
        version = version_of(envelope)
        assert version is not None
        if isinstance(request, Renew):
            wanted = request.expires
            until = self._granted(version, wanted, now)
            as_date = wanted is not None and wanted.is_date
            record = await self._subscriptions.renew(record, until, as_date=as_date)
            return answers.renewed(envelope, record, now)
        if isinstance(request, GetStatus):
            return answers.status(envelope, record, now)
        await self._subscriptions.unsubscribe(record)
        return answers.unsubscribed(envelope)

    def _record(
        self, envelope: Envelope, request: Subscribe, login: Login, here: str, now: float
    ) -> Record:
        version = version_of(envelope)
        assert version is not None
        wanted = request.expires
        return Record(
            id=new_id(),
            user=login.user,
            token=login.token,
            filter=str(request.interest),
            notify=request.notify,
            end=request.end,
            version=version.name,
            soap=envelope.soap.name,
            addressing=addressing_of(envelope).name,
            wrapped=request.wrapped,
            expires_at=self._granted(version, wanted, now),
            expires_as_date=wanted is not None and wanted.is_date,
            manager=here,
        )

    def _granted(self, version: Eventing, wanted: Wanted | None, now: float) -> float:
        most_s = self._settings.expires_max_s
        until = granted(wanted, now, most_s, zero_is_forever=version.zero_is_forever)
        if until is None:
            what = f"the time is over already, or longer than {most_s:g} s"
            raise FaultError("bad expiry", f"{what}; expected a time between")
        return until

    def _found(self, request: Renew | GetStatus | Unsubscribe, login: Login, now: float) -> Record:
        record = self._subscriptions.found(request.identifier, login.user, now)
        if record is None:
            what = "unknown to renew" if isinstance(request, Renew) else "unknown subscription"
            raise FaultError(what, f"there is no subscription {request.identifier[:100]!r}")
        return record
