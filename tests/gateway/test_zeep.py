"""zeep, a client of SOAP that knows nothing of us, in both versions, through three brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import zeep
from lxml import etree
from zeep.exceptions import Fault
from zeep.wsa import WsAddressingPlugin

from roost.client import connect
from roost.gateway.ws_eventing.versions import EVENTING_2011, Eventing
from tests.client.support import in_loop, until, url_of
from tests.gateway.kit import FILTER, HOST, VERSIONS, federation, gateway_to, sinks


class Stranger:
    """A zeep client made from the WSDL of a gateway. Its calls block, and so run in a thread."""

    def __init__(self, version: Eventing, port: int, binding: str) -> None:
        self._version = version
        plugins = [WsAddressingPlugin()] if version is EVENTING_2011 else []
        wsdl = f"http://{HOST}:{port}/{version.name}.wsdl"
        self._client: Any = zeep.Client(  # type: ignore[no-untyped-call]
            wsdl, plugins=plugins, port_name=binding
        )
        self._client.transport.session.trust_env = False
        self.service = self._client.service

    def subscribe(self, sink: str, filter_: str, **more: Any) -> Any:
        return self.service.Subscribe(
            Delivery={"NotifyTo": {"Address": sink}},
            Expires={"_value_1": "PT1H"},
            Filter={"_value_1": filter_, "Dialect": FILTER},
            _soapheaders=self._headers("Subscribe"),
            **more,
        )

    def about(self, kind: str, subscription: Any, **parts: Any) -> Any:
        """A request about a subscription, with what the answer to Subscribe says of it."""
        manager = subscription.SubscriptionManager
        identifier = etree.Element(self._version.identifier)
        (identifier.text,) = manager.ReferenceParameters._value_1
        operation = getattr(self.service, kind)
        return operation(_soapheaders=[identifier, *self._headers(kind)], **parts)

    def publish(self, n: int) -> None:
        attribute = {"name": "n", "type": "integer", "_value_1": str(n)}
        self.service.Publish(Attribute=[attribute], _soapheaders=[])

    def _headers(self, kind: str) -> list[Any]:
        """zeep adds those of 2005 by itself, and knows none of 2004."""
        if self._version is EVENTING_2011:
            return []
        tag = self._version.addressing.tag
        headers = {"Action": self._version.uri(kind), "MessageID": f"urn:zeep:{kind}"}
        made = [etree.Element(tag(name)) for name in headers]
        for element, text in zip(made, headers.values(), strict=True):
            element.text = text
        return made


async def call(work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return await asyncio.to_thread(work, *args, **kwargs)


@pytest.mark.parametrize("binding", ["Soap12", "Soap11"])
@pytest.mark.parametrize("version", VERSIONS, ids=["2004", "2011"])
@in_loop
async def test_zeep(version: Eventing, binding: str) -> None:
    async with (
        federation() as servers,
        gateway_to(servers[0]) as here,
        gateway_to(servers[2]) as there,
        sinks() as (sink,),
        connect(url_of(servers[1])) as client,
    ):
        stranger = await call(Stranger, version, here.port, binding)
        publisher = await call(Stranger, version, there.port, binding)
        subscription = await call(stranger.subscribe, sink.url, "n >= 0")
        assert subscription.SubscriptionManager.Address == f"http://{HOST}:{here.port}/"
        assert subscription[version.granted]["_value_1"].startswith("PT")

        # By a gateway at the other end of the federation.
        for n in range(5):
            await call(publisher.publish, n)
        await until(lambda: sink.numbers() == [*range(5)], "the sink hears")
        # By a client between them, while the sink is killed and comes back.
        numbers = iter(range(5, 300))
        for _ in range(3):
            for _ in range(30):
                await client.publish({"n": next(numbers)})
            await sink.kill()
            for _ in range(30):
                await client.publish({"n": next(numbers)})
            await client.flush()
            await sink.start()
        last = next(numbers)
        await client.publish({"n": last})
        await until(lambda: last in sink.numbers(), "the sink has all")
        # At least once: what was on its way when it was killed may come again, at once.
        heard = sink.numbers()
        first_time = list(dict.fromkeys(heard))
        assert first_time == [*range(last + 1)]
        assert len(heard) <= len(first_time) + 3
        assert all(b - a <= 1 for a, b in pairwise(heard))

        renewed = await call(stranger.about, "Renew", subscription, Expires={"_value_1": "PT2H"})
        text = (
            renewed[version.granted]["_value_1"] if hasattr(renewed, version.granted) else renewed
        )
        assert (text if isinstance(text, str) else text["_value_1"]) == "PT7200S"
        await call(stranger.about, "GetStatus", subscription)
        await call(stranger.about, "Unsubscribe", subscription)
        with pytest.raises(Fault) as gone:
            await call(stranger.about, "GetStatus", subscription)
        expected = version.faults["unknown subscription"].name
        said = gone.value.subcodes[0].localname if binding == "Soap12" else gone.value.code
        assert said.endswith(expected)
        with pytest.raises(Fault, match="column"):
            await call(stranger.subscribe, sink.url, "n >")
