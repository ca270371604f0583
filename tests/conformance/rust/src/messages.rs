//! Messages of a queue: sent, received in both modes, settled, peeked and scheduled.

use std::time::Duration;

use azservicebus::prelude::*;
use azservicebus::receiver::DeadLetterOptions;
use fe2o3_amqp_types::messaging::ApplicationProperties;
use fe2o3_amqp_types::primitives::{OrderedMap, SimpleValue, Value};
use serde_json::json;
use time::OffsetDateTime;

use crate::bus::{bodies, body, peeked, text, texts, Bus, Done};
use crate::{Input, Outcome};

/// A lock that is renewed within the millisecond in which it was taken lasts no longer than before.
pub const RENEWALS_MAX: usize = 100;

pub async fn send(bus: &mut Bus, input: &Input) -> Outcome {
    let mut message = text("first");
    message.set_message_id("the-id")?;
    message.set_content_type("text/plain".to_string());
    message.set_correlation_id("the-correlation".to_string());
    message.set_subject("the-subject".to_string());
    message.set_to("the-destination".to_string());
    message.set_reply_to("the-reply".to_string());
    message.set_time_to_live(Duration::from_secs(3600))?;
    let mut properties = ApplicationProperties::default();
    properties.insert("text".into(), "grüße".into());
    properties.insert("number".into(), (-7i64).into());
    properties.insert("fraction".into(), 1.5f64.into());
    properties.insert("yes".into(), true.into());
    *message.application_properties_mut() = Some(properties);
    bus.send(&input.queue, vec![message]).await?;
    let taken = bus.take(&input.queue, 1, SubQueue::None).await?;
    let taken = &taken[0];
    Ok(json!({
        "body": body(taken)?, "messageId": taken.message_id(), "contentType": taken.content_type(),
        "correlationId": taken.correlation_id(), "subject": taken.subject(), "to": taken.to(),
        "replyTo": taken.reply_to(), "timeToLiveSeconds": taken.time_to_live().map(|d| d.as_secs()),
        "properties": shown(taken),
    }))
}

/// The application properties of a message as JSON.
fn shown(message: &ServiceBusReceivedMessage) -> serde_json::Value {
    let mut found = serde_json::Map::new();
    for (name, value) in message.application_properties().into_iter().flat_map(|all| all.iter()) {
        let value = match value {
            SimpleValue::String(text) => json!(text),
            SimpleValue::Long(number) => json!(number),
            SimpleValue::Double(number) => json!(number.into_inner()),
            SimpleValue::Bool(flag) => json!(flag),
            other => json!(format!("{other:?}")),
        };
        found.insert(name.clone(), value);
    }
    found.into()
}

pub async fn batch(bus: &mut Bus, input: &Input) -> Outcome {
    let mut sender = bus.client.create_sender(&input.queue, Default::default()).await?;
    let mut batch = sender.create_message_batch(Default::default())?;
    for number in 0..input.count {
        batch.try_add_message(number.to_string())?;
    }
    sender.send_message_batch(batch).await?;
    sender.dispose().await?;
    let messages = bus.take(&input.queue, input.count as u32, SubQueue::None).await?;
    Ok(json!(bodies(&messages)?))
}

pub async fn large(bus: &mut Bus, input: &Input) -> Outcome {
    let sent: Vec<u8> = (0..input.size).map(|index| index as u8).collect();
    bus.send(&input.queue, vec![ServiceBusMessage::new(sent.clone())]).await?;
    let messages = bus.take(&input.queue, 1, SubQueue::None).await?;
    let found = messages[0].body()?;
    Ok(json!({ "length": found.len(), "same": found == sent }))
}

/// Sends texts and receives as many messages under their locks.
async fn locked(
    bus: &mut Bus,
    queue: &str,
    sent: &[&str],
) -> Done<(ServiceBusReceiver, Vec<ServiceBusReceivedMessage>)> {
    bus.send(queue, texts(sent)).await?;
    let mut receiver = bus.receiver(queue).await?;
    let messages = receiver.receive_messages(sent.len() as u32).await?;
    Ok((receiver, messages))
}

pub async fn complete(bus: &mut Bus, input: &Input) -> Outcome {
    let (mut receiver, messages) = locked(bus, &input.queue, &["one", "two"]).await?;
    for message in &messages {
        receiver.complete_message(message).await?;
    }
    let left = bus.left(&input.queue, 0).await?;
    receiver.dispose().await?;
    Ok(json!({ "bodies": bodies(&messages)?, "left": left.len() }))
}

pub async fn receive_and_delete(bus: &mut Bus, input: &Input) -> Outcome {
    bus.send(&input.queue, texts(&["one", "two"])).await?;
    let messages = bus.take(&input.queue, 2, SubQueue::None).await?;
    let left = bus.left(&input.queue, 0).await?;
    Ok(json!({ "bodies": bodies(&messages)?, "left": left.len() }))
}

fn changes(name: &str, value: Value) -> Option<OrderedMap<String, Value>> {
    let mut changed = OrderedMap::new();
    changed.insert(name.to_string(), value);
    Some(changed)
}

/// The client counts deliveries from 1 where the protocol counts from 0.
fn failures(message: &ServiceBusReceivedMessage) -> Option<u32> {
    message.delivery_count().map(|count| count - 1)
}

pub async fn abandon(bus: &mut Bus, input: &Input) -> Outcome {
    let (mut receiver, messages) = locked(bus, &input.queue, &["one"]).await?;
    let first = &messages[0];
    receiver.abandon_message(first, changes("tries", Value::Long(1))).await?;
    let again = receiver.receive_message().await?;
    receiver.complete_message(&again).await?;
    receiver.dispose().await?;
    Ok(json!({
        "deliveryCounts": [failures(first), failures(&again)],
        "same": first.sequence_number() == again.sequence_number(),
        "properties": shown(&again),
    }))
}

pub async fn dead_letter(bus: &mut Bus, input: &Input) -> Outcome {
    let (mut receiver, messages) = locked(bus, &input.queue, &["bad"]).await?;
    let options = DeadLetterOptions {
        dead_letter_reason: Some("Unreadable".to_string()),
        dead_letter_error_description: Some("not JSON".to_string()),
        properties_to_modify: changes("tenant", Value::String("a".to_string())),
    };
    receiver.dead_letter_message(&messages[0], options).await?;
    receiver.dispose().await?;
    let dead = bus.take(&input.queue, 1, SubQueue::DeadLetter).await?;
    Ok(json!({
        "body": body(&dead[0])?, "reason": dead[0].dead_letter_reason(),
        "description": dead[0].dead_letter_error_description(), "tenant": shown(&dead[0])["tenant"],
    }))
}

/// Waits until a message is deferred, as a peek shows it.
pub async fn deferred(bus: &mut Bus, queue: &str, number: i64) -> Done<()> {
    let mut peeker = bus.receiver(queue).await?;
    loop {
        let found = peeker.peek_messages(1, Some(number)).await?;
        if found.iter().any(|message| message.state() == ServiceBusMessageState::Deferred) {
            return Ok(peeker.dispose().await?);
        }
    }
}

pub async fn deferral(bus: &mut Bus, input: &Input) -> Outcome {
    let (mut receiver, messages) = locked(bus, &input.queue, &["later"]).await?;
    let number = messages[0].sequence_number();
    receiver.defer_message(&messages[0], None).await?;
    deferred(bus, &input.queue, number).await?;
    let found = receiver.receive_deferred_messages([number]).await?;
    receiver.complete_message(&found[0]).await?;
    receiver.dispose().await?;
    let left = bus.left(&input.queue, 0).await?;
    Ok(json!({
        "bodies": bodies(&found)?, "state": found[0].state() as u8, "left": left.len(),
    }))
}

pub async fn renew_lock(bus: &mut Bus, input: &Input) -> Outcome {
    let (mut receiver, mut messages) = locked(bus, &input.queue, &["one"]).await?;
    let message = &mut messages[0];
    let before = message.locked_until();
    for _ in 0..RENEWALS_MAX {
        receiver.renew_message_lock(message).await?;
        if message.locked_until() > before {
            break;
        }
    }
    receiver.complete_message(&*message).await?;
    receiver.dispose().await?;
    Ok(json!({ "later": message.locked_until() > before }))
}

/// Waits for the loss of a lock by receiving the message again. A renewal reports the loss; a
/// settlement is sent and its answer is not waited for.
pub async fn lock_lost(bus: &mut Bus, input: &Input) -> Outcome {
    let (mut receiver, mut messages) = locked(bus, &input.queue, &["one"]).await?;
    let mut holder = bus.receiver(&input.queue).await?;
    let held = holder.receive_message().await?;
    assert_eq!(failures(&held), Some(1), "the message did not come back");
    receiver.renew_message_lock(&mut messages[0]).await?;
    Ok(json!(null))
}

pub async fn peek(bus: &mut Bus, input: &Input) -> Outcome {
    bus.send(&input.queue, texts(&["one", "two", "three"])).await?;
    let mut receiver = bus.receiver(&input.queue).await?;
    let first = receiver.peek_messages(2, None).await?;
    let second = receiver.peek_messages(10, Some(first[1].sequence_number())).await?;
    receiver.dispose().await?;
    Ok(json!([peeked(&first)?, peeked(&second)?]))
}

pub async fn schedule(bus: &mut Bus, input: &Input) -> Outcome {
    let mut sender = bus.client.create_sender(&input.queue, Default::default()).await?;
    let later = OffsetDateTime::now_utc() + Duration::from_secs(3600);
    let numbers = sender.schedule_messages(["never", "much later"], later).await?;
    sender.cancel_scheduled_message(numbers[0]).await?;
    let waiting = bus.left(&input.queue, 1).await?;
    let soon = OffsetDateTime::now_utc() + Duration::from_secs(1);
    sender.schedule_message("soon", soon).await?;
    sender.dispose().await?;
    let due = bus.take(&input.queue, 1, SubQueue::None).await?;
    Ok(json!({
        "waiting": peeked(&waiting)?, "state": waiting[0].state() as u8, "due": bodies(&due)?,
        "numbered": waiting[0].sequence_number() == numbers[1],
    }))
}
