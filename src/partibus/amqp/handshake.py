"""Before the first AMQP frame: protocol headers and SASL [2.2, 5.3].

Owns which bytes of the peer come next, and what is written before our open. Must never judge a
credential: the owner does, and nothing after an init is read before that. Used by the connection
only.
"""

from typing import Final

from partibus.amqp import conditions, sasl
from partibus.amqp.codec.fields import FieldReader
from partibus.amqp.errors import AmqpError, ProtocolError
from partibus.amqp.events import ConnectionFailed, Event, SaslInitReceived, SaslOutcomeReceived
from partibus.amqp.framing import AMQP_HEADER, SASL_HEADER, decode_descriptor
from partibus.amqp.settings import ConnectionSettings

# What the next bytes of the peer are.
STAGE_HEADER: Final = 0  # the header that says what follows
STAGE_SASL: Final = 1  # frames of the SASL layer
STAGE_VERDICT: Final = 2  # nothing may be read before the owner has judged the init
STAGE_AMQP_HEADER: Final = 3  # the AMQP header, after SASL
STAGE_AMQP: Final = 4  # frames
STAGE_CLOSED: Final = 5  # nothing of interest


class Handshake:
    """The exchange before the first AMQP frame; `output` is sent before any frame."""

    __slots__ = ("_frames", "_init", "_initiator", "_settings", "header_sent", "output", "stage")

    def __init__(self, settings: ConnectionSettings, initiator: bool) -> None:
        self._settings = settings
        self._initiator = initiator
        self._init: tuple[str, bytes] | None = None
        self._frames = 0
        self.stage = STAGE_HEADER
        self.header_sent = False
        self.output: list[bytes] = []

    def start_sasl(self, mechanism: str, response: bytes) -> None:
        assert self._initiator and self._init is None and not self.header_sent
        self._init = (mechanism, response)
        self.output.append(SASL_HEADER)

    def start_amqp(self) -> None:
        """An initiator without SASL begins with the AMQP header."""
        if self._initiator and self._init is None:
            self._send_amqp_header()

    def take_header(self, header: bytes, events: list[Event]) -> None:
        expects_sasl = self._initiator and self._init is not None
        takes_sasl = expects_sasl or not self._initiator
        if header == AMQP_HEADER and (self.stage == STAGE_AMQP_HEADER or not expects_sasl):
            self.stage = STAGE_AMQP
            self._send_amqp_header()
        elif header == SASL_HEADER and self.stage == STAGE_HEADER and takes_sasl:
            self.stage = STAGE_SASL
            if not self._initiator:
                self.output.append(SASL_HEADER)
                self.output.append(sasl.encode_mechanisms(self._settings.sasl_mechanisms))
        else:
            # [2.2]: answer with what we speak, and close.
            if not self._initiator:
                wanted = AMQP_HEADER if self.stage == STAGE_AMQP_HEADER else SASL_HEADER
                self.output.append(wanted)
            self.stage = STAGE_CLOSED
            text = f"The peer speaks another protocol: it began with {header!r}."
            events.append(ConnectionFailed(AmqpError(conditions.NOT_IMPLEMENTED, text)))

    def _send_amqp_header(self) -> None:
        if not self.header_sent:
            self.header_sent = True
            self.output.append(AMQP_HEADER)

    def take_frame(self, buf: bytes, at: int, end: int, events: list[Event]) -> None:
        """One SASL frame; the table says which."""
        code, at = decode_descriptor(buf, at, end)
        if code != sasl.EXPECTED.get((self._initiator, self._frames)):
            raise ProtocolError(
                conditions.CONNECTION_FRAMING_ERROR, f"SASL frame 0x{code:x} is not allowed now."
            )
        self._frames += 1
        fields = FieldReader(buf, at, end)
        if code == sasl.INIT:
            self._take_init(fields, events)
        elif code == sasl.MECHANISMS:
            self._take_mechanisms(fields)
        else:
            outcome = sasl.decode_outcome(fields)
            events.append(SaslOutcomeReceived(outcome))
            if outcome == sasl.OUTCOME_OK:
                self.stage = STAGE_AMQP_HEADER
                self._send_amqp_header()
            else:
                self.stage = STAGE_CLOSED

    def _take_init(self, fields: FieldReader, events: list[Event]) -> None:
        mechanism, response, hostname = sasl.decode_init(fields)
        self.stage = STAGE_VERDICT
        if mechanism in self._settings.sasl_mechanisms:
            events.append(SaslInitReceived(mechanism, response, hostname))
            return
        self.judge(False)
        text = f"The SASL mechanism {mechanism!r} is not offered."
        events.append(ConnectionFailed(AmqpError(conditions.UNAUTHORIZED_ACCESS, text)))

    def _take_mechanisms(self, fields: FieldReader) -> None:
        assert self._init is not None
        mechanism, response = self._init
        if mechanism not in sasl.decode_mechanisms(fields):
            raise ProtocolError(
                conditions.NOT_IMPLEMENTED, f"The peer does not offer SASL {mechanism}."
            )
        self.output.append(sasl.encode_init(mechanism, response, self._settings.hostname))

    def judge(self, ok: bool) -> None:
        """The owner's answer to the init."""
        self.output.append(sasl.encode_outcome(sasl.OUTCOME_OK if ok else sasl.OUTCOME_AUTH))
        self.stage = STAGE_AMQP_HEADER if ok else STAGE_CLOSED
