"""The ids of a message, read where `parse_sections` says they are: the bus reads them there too."""

from partibus.amqp.codec.decode import DecodeError, decode_value
from partibus.amqp.codec.properties import message_id_of, text_field
from partibus.amqp.codec.sections import MessageSections


def message_id_and_group_id(payload: bytes, sections: MessageSections) -> tuple[object, str | None]:
    """The message-id, in any of its four types [3.2.4], and the group-id; None when unset."""
    message_id: object = None
    group_id: str | None = None
    try:
        at = sections.message_id_offset
        if at >= 0:
            code = payload[at]
            if code == 0xA1:
                message_id = payload[at + 2 : at + 2 + payload[at + 1]].decode()
            elif code != 0x40:
                value, _ = decode_value(payload, at, sections.properties_end)
                message_id = message_id_of("message-id", value)
        at = sections.group_id_offset
        if at >= 0:
            code = payload[at]
            if code == 0xA1:
                group_id = payload[at + 2 : at + 2 + payload[at + 1]].decode()
            elif code != 0x40:
                value, _ = decode_value(payload, at, sections.properties_end)
                group_id = text_field("group-id", value)
    except UnicodeDecodeError as error:
        raise DecodeError(f"a string is not UTF-8: {error.reason}") from None
    return message_id, group_id
