//! What the server refuses.

use azservicebus::prelude::*;
use serde_json::json;

use crate::bus::{bodies, Bus};
use crate::{Input, Outcome};

/// Sends a message of a size to a queue, whatever becomes of it.
pub async fn send_only(bus: &mut Bus, input: &Input) -> Outcome {
    bus.send(&input.queue, vec![ServiceBusMessage::new(vec![0; input.size])]).await?;
    Ok(json!(null))
}

/// Adds a message of a size to a batch, which knows what the queue takes at most. A message that is
/// sent by itself is not measured: the server closes the link, which the client does not notice.
pub async fn add_to_batch(bus: &mut Bus, input: &Input) -> Outcome {
    let sender = bus.client.create_sender(&input.queue, Default::default()).await?;
    let mut batch = sender.create_message_batch(Default::default())?;
    batch.try_add_message(ServiceBusMessage::new(vec![0; input.size]))?;
    sender.dispose().await?;
    Ok(json!(batch.len()))
}

pub async fn receive_only(bus: &mut Bus, input: &Input) -> Outcome {
    let messages = bus.take(&input.queue, 1, SubQueue::None).await?;
    Ok(json!(bodies(&messages)?))
}
