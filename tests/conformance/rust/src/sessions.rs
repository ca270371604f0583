//! Sessions of a queue.

use std::collections::BTreeMap;

use azservicebus::prelude::*;
use serde_json::json;

use crate::bus::{bodies, body, text, Bus, Done};
use crate::messages::RENEWALS_MAX;
use crate::{Input, Outcome};

fn within(session: &str, body: &str) -> Done<ServiceBusMessage> {
    let mut message = text(body);
    message.set_session_id(session.to_string())?;
    Ok(message)
}

async fn accept(bus: &mut Bus, input: &Input) -> Done<ServiceBusSessionReceiver> {
    let options = ServiceBusSessionReceiverOptions::default();
    Ok(bus.client.accept_session_for_queue(&input.queue, "a", options).await?)
}

pub async fn named(bus: &mut Bus, input: &Input) -> Outcome {
    let sent = vec![within("a", "a1")?, within("b", "b1")?, within("a", "a2")?];
    bus.send(&input.queue, sent).await?;
    let mut receiver = accept(bus, input).await?;
    let messages = receiver.receive_messages(2).await?;
    for message in &messages {
        receiver.complete_message(message).await?;
    }
    // The client sends a settlement and does not wait for the answer.
    while !receiver.peek_messages(10, Some(0)).await?.is_empty() {}
    let session = receiver.session_id().to_string();
    receiver.dispose().await?;
    Ok(json!({ "session": session, "bodies": bodies(&messages)?, "left": 0 }))
}

pub async fn next(bus: &mut Bus, input: &Input) -> Outcome {
    bus.send(&input.queue, vec![within("a", "a1")?, within("b", "b1")?]).await?;
    let mut found = BTreeMap::new();
    let mut holders = Vec::new();
    for _ in 0..2 {
        let options = ServiceBusSessionReceiverOptions::default();
        let mut receiver = bus.client.accept_next_session_for_queue(&input.queue, options).await?;
        let messages = receiver.receive_messages(1).await?;
        found.insert(receiver.session_id().to_string(), bodies(&messages)?);
        holders.push(receiver);
    }
    for holder in holders {
        holder.dispose().await?;
    }
    Ok(json!(found))
}

/// The client cannot read a state that was never set, which is null.
pub async fn state(bus: &mut Bus, input: &Input) -> Outcome {
    let mut receiver = accept(bus, input).await?;
    receiver.set_session_state(b"half way".to_vec()).await?;
    let kept = receiver.session_state().await?;
    receiver.set_session_state(Vec::new()).await?;
    let cleared = receiver.session_state().await?;
    receiver.dispose().await?;
    Ok(json!([String::from_utf8(kept)?, String::from_utf8(cleared)?]))
}

/// The client does not read the time that the link came with, so the second renewal is compared
/// with the first.
pub async fn renew(bus: &mut Bus, input: &Input) -> Outcome {
    let mut receiver = accept(bus, input).await?;
    receiver.renew_session_lock().await?;
    let before = receiver.session_locked_until();
    for _ in 0..RENEWALS_MAX {
        receiver.renew_session_lock().await?;
        if receiver.session_locked_until() > before {
            break;
        }
    }
    let later = receiver.session_locked_until() > before;
    receiver.dispose().await?;
    Ok(json!({ "later": later }))
}

/// Asks for a session that another receiver holds.
pub async fn held(bus: &mut Bus, input: &Input) -> Outcome {
    let _holder = accept(bus, input).await?;
    accept(bus, input).await?;
    Ok(json!(null))
}

pub async fn settlement(bus: &mut Bus, input: &Input) -> Outcome {
    let sent = vec![within("a", "again")?, within("a", "dead")?, within("a", "later")?];
    bus.send(&input.queue, sent).await?;
    let mut receiver = accept(bus, input).await?;
    let messages = receiver.receive_messages(3).await?;
    receiver.abandon_message(&messages[0], None).await?;
    receiver.dead_letter_message(&messages[1], Default::default()).await?;
    receiver.defer_message(&messages[2], None).await?;
    let again = receiver.receive_message().await?;
    let number = messages[2].sequence_number();
    let is_deferred = |m: &ServiceBusPeekedMessage| m.state() == ServiceBusMessageState::Deferred;
    while !receiver.peek_messages(1, Some(number)).await?.iter().any(is_deferred) {}
    let deferred = receiver.receive_deferred_messages([number].into_iter()).await?;
    receiver.dispose().await?;
    let dead = bus.take(&input.queue, 1, SubQueue::DeadLetter).await?;
    Ok(json!([body(&again)?, body(&dead[0])?, body(&deferred[0])?]))
}
