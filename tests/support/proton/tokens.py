"""Putting tokens on `$cbs` through Qpid Proton, as a generic client does (SAS-9).

Import it only where the group "proton" is present.
"""

from proton import Delivery, Message

from support.proton.client import Client


def put_token(client: Client, audience: str, token: str) -> int:
    """Put a token for an audience; returns the status code of the answer."""
    responses = client.receiver("$cbs", credit=1)
    requests = client.sender("$cbs")
    requests.send(
        Message(
            id="request-1",
            reply_to=responses.link.name,
            properties={
                "operation": "put-token",
                "type": "servicebus.windows.net:sastoken",
                "name": audience,
            },
            body=token,
        )
    )
    ((response, delivery),) = responses.wait_for(1)
    delivery.update(Delivery.ACCEPTED)
    delivery.settle()
    requests.close()
    responses.close()
    assert response.correlation_id == "request-1"
    assert response.properties["status-description"]
    return int(response.properties["status-code"])
