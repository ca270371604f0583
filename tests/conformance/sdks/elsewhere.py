"""Where the operations of the table are run with the Python and the JavaScript client.

Owns a name of a test for each cell of their two columns; the paths are below tests/conformance.
"""

from typing import Final

PYTHON: Final = {
    "send": "test_python_sync.py::test_broker_properties_come_back_as_they_were_sent",
    "batch": "test_python_sync.py::test_a_batch_object_is_sent_whole",
    "large message": "test_python_sync.py::test_a_large_message_travels_over_several_frames",
    "receive and complete": (
        "test_python_sync.py::test_a_message_sent_is_received_and_completed_away"
    ),
    "receive and delete": "test_python_sync.py::test_receive_and_delete_consumes_at_once",
    "abandon": "test_python_sync.py::test_abandon_returns_the_message_to_the_front_and_counts",
    "dead-letter, read dead letters": (
        "test_python_sync.py::test_dead_lettering_keeps_reason_description_and_properties"
    ),
    "defer, receive by sequence number": (
        "test_python_management.py::test_a_deferred_message_is_received_by_its_number_only"
    ),
    "renew a lock": "test_python_management.py::test_a_renewed_lock_outlives_its_first_term",
    "lost lock reported": "test_python_sync.py::test_settling_after_the_lock_lapsed_is_an_error",
    "peek": "test_python_management.py::test_peek_shows_every_message_in_order_and_takes_none",
    "schedule, cancel": (
        "test_python_management.py::test_a_scheduled_message_is_seen_by_peek_and_can_be_cancelled"
    ),
    "session by name": "sessions/test_python_sync.py::test_a_certain_session_is_held_by_one",
    "next available session": (
        "sessions/test_python_sync.py::test_the_next_session_is_the_one_whose_head_waits_longest"
    ),
    "session state": "sessions/test_python_sync.py::test_state_outlives_messages_and_holders",
    "renew a session lock": "sessions/test_python_sync.py::test_a_renewed_session_stays",
    "settle within a session": "sessions/test_python_sync.py::test_settling_in_a_session",
    "held session reported": "sessions/test_python_sync.py::test_a_certain_session_is_held_by_one",
    "no session reported": "sessions/test_python_sync.py::test_nobody_waits_for_ever_for_a_session",
    "list sessions": "sessions/test_python_sync.py::test_many_sessions_are_listed_page_by_page",
    "topic and subscription": (
        "topics/test_rules.py::test_each_subscription_gets_what_its_rules_select"
    ),
    "rules by the administration client": "admin/test_python_rules.py::test_sql_filters",
    "administer queues": "admin/test_python_queues.py::test_the_life_of_a_queue",
    "administer topics and subscriptions": (
        "admin/test_python_topics.py::test_the_life_of_topic_and_subscription"
    ),
    "list entities": "admin/test_pages.py::test_a_list_longer_than_a_page",
    "namespace properties": "admin/test_namespace.py::test_its_properties",
    "missing entity in administration": (
        "admin/test_python_errors.py::test_what_is_missing_is_not_found"
    ),
    "conflict in administration": "admin/test_python_errors.py::test_a_used_name_is_refused",
    "missing entity reported": (
        "test_python_sync.py::test_a_missing_queue_is_told_to_senders_and_receivers"
    ),
    "message too large reported": (
        "test_python_sync.py::test_a_message_that_is_too_large_is_refused_and_the_queue_goes_on"
    ),
    "wrong key reported": "test_access.py::test_a_wrong_key_is_refused",
    "TLS": "transports/test_tls.py::test_the_stock_client_verifies_the_name",
    "WebSocket": "transports/test_websocket_python.py::test_send_receive_and_settle",
}

JAVASCRIPT: Final = {
    "send": "test_javascript.py::test_properties_come_back_as_they_were_sent",
    "batch": "test_javascript.py::test_batches",
    "large message": "test_javascript.py::test_a_large_message",
    "receive and complete": (
        "test_javascript.py::test_a_message_is_received_with_an_id_and_completed_away"
    ),
    "receive and delete": (
        "settlement/test_javascript.py::test_what_was_received_and_deleted_cannot_be_settled"
    ),
    "abandon": "test_javascript.py::test_abandon",
    "dead-letter, read dead letters": "test_javascript.py::test_dead_letter",
    "defer, receive by sequence number": (
        "settlement/test_javascript.py::test_deferral_with_properties_to_modify"
    ),
    "renew a lock": "settlement/test_javascript.py::test_renewal_by_hand_and_by_itself",
    "lost lock reported": "test_javascript.py::test_a_lost_lock",
    "peek": "settlement/test_javascript.py::test_peek",
    "schedule, cancel": "settlement/test_javascript.py::test_schedule_and_cancel",
    "handler": "test_javascript.py::test_streaming",
    "session by name": "sessions/test_javascript.py::test_a_certain_session",
    "next available session": "sessions/test_javascript.py::test_the_next_session",
    "session state": "sessions/test_javascript.py::test_state",
    "renew a session lock": (
        "sessions/test_javascript.py::test_a_session_that_the_client_renews_by_itself"
    ),
    "settle within a session": "sessions/test_javascript.py::test_deferral_and_peek",
    "held session reported": "sessions/test_javascript.py::test_refusals",
    "topic and subscription": (
        "topics/test_javascript.py::test_subscriptions_are_received_from_like_queues"
    ),
    "rules over AMQP": "topics/test_javascript.py::test_rules_come_and_go",
    "rules by the administration client": "admin/test_javascript.py::test_the_life_of_rules",
    "administer queues": "admin/test_javascript.py::test_the_life_of_a_queue",
    "administer topics and subscriptions": (
        "admin/test_javascript.py::test_the_life_of_a_subscription"
    ),
    "list entities": "admin/test_javascript.py::test_lists_in_pages",
    "namespace properties": "admin/test_javascript.py::test_the_namespace",
    "missing entity in administration": "admin/test_javascript.py::test_errors",
    "conflict in administration": "admin/test_javascript.py::test_errors",
    "missing entity reported": "test_javascript.py::test_a_missing_queue",
    "message too large reported": "test_javascript.py::test_a_message_that_is_too_large",
    "wrong key reported": "test_javascript.py::test_what_is_not_allowed",
    "TLS": "test_javascript.py::test_tls_with_the_development_ca",
    "WebSocket": "transports/test_websocket_javascript.py::test_send_receive_and_settle",
}
