"""WS-Eventing: subscribe by SOAP, be notified by HTTP. docs/GATEWAYS.md is the manual.

What is said is a matter of pure functions: `xml_tree`, `versions`, `addressing`, `envelope`, `faults`,
`expiry`, `filters`, `events`, `requests`, `answers`, `wsdl`. At work are

| module | what it does |
| --- | --- |
| `records` | what is kept of subscriptions |
| `guard`, `posting` | which sinks are sent to, and how |
| `courier`, `subscriptions` | one subscription, and all of them |
| `logins` | who calls, as the broker knows them |
| `service`, `server` | a request and its answer, and HTTP around that |
| `beside` | all of it in the process of a broker |
"""

from roost.gateway.ws_eventing.server import Gateway

__all__ = ["Gateway"]
