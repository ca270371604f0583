//! The client of one scenario, and what most scenarios do with it.

use std::error::Error;

use azservicebus::authorization::AzureNamedKeyCredential;
use azservicebus::core::BasicRetryPolicy;
use azservicebus::prelude::*;

use crate::Input;

pub type Done<T> = Result<T, Box<dyn Error>>;

pub struct Bus {
    pub client: ServiceBusClient<BasicRetryPolicy>,
}

impl Bus {
    pub async fn connect(input: &Input) -> Done<Self> {
        let mut options = ServiceBusClientOptions::default();
        options.retry_options.set_max_retries(0).expect("no retries are allowed");
        if input.web_socket {
            options.transport_type = ServiceBusTransportType::AmqpWebSocket;
        }
        let is_plain = input.connection.contains("UseDevelopmentEmulator=true");
        let client = connected(input, is_plain, options).await?;
        Ok(Self { client })
    }

    pub async fn close(self) -> Done<()> {
        Ok(self.client.dispose().await?)
    }

    pub async fn send(&mut self, entity: &str, messages: Vec<ServiceBusMessage>) -> Done<()> {
        let mut sender = self.client.create_sender(entity, Default::default()).await?;
        for message in messages {
            sender.send_message(message).await?;
        }
        Ok(sender.dispose().await?)
    }

    pub async fn receiver(&mut self, queue: &str) -> Done<ServiceBusReceiver> {
        Ok(self.client.create_receiver_for_queue(queue, Default::default()).await?)
    }

    /// Receives and deletes a number of messages of a queue or of its dead-letter queue.
    pub async fn take(
        &mut self,
        queue: &str,
        count: u32,
        part: SubQueue,
    ) -> Done<Vec<ServiceBusReceivedMessage>> {
        let options = ServiceBusReceiverOptions {
            receive_mode: ServiceBusReceiveMode::ReceiveAndDelete,
            sub_queue: part,
            ..Default::default()
        };
        let mut taker = self.client.create_receiver_for_queue(queue, options).await?;
        let messages = taker.receive_messages(count).await?;
        taker.dispose().await?;
        Ok(messages)
    }

    /// What a peek shows once the wanted number of messages is left: the client sends a settlement
    /// and does not wait for the answer.
    pub async fn left(
        &mut self,
        queue: &str,
        wanted: usize,
    ) -> Done<Vec<ServiceBusPeekedMessage>> {
        let mut peeker = self.receiver(queue).await?;
        loop {
            let found = peeker.peek_messages(100, Some(0)).await?;
            if found.len() == wanted {
                peeker.dispose().await?;
                return Ok(found);
            }
        }
    }
}

/// The client drops the port of a connection string, so that one beside the default ports is
/// given as part of the namespace.
async fn connected(
    input: &Input,
    is_plain: bool,
    options: ServiceBusClientOptions,
) -> Result<ServiceBusClient<BasicRetryPolicy>, Box<dyn Error>> {
    let parsed = ServiceBusConnectionStringProperties::parse(&input.connection)?;
    let endpoint = parsed.endpoint().ok_or("the connection string has no endpoint")?;
    let host = endpoint.host_str().ok_or("the endpoint has no host")?;
    let namespace = match endpoint.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_string(),
    };
    let credential = AzureNamedKeyCredential::new(
        parsed.shared_access_key_name().unwrap_or_default(),
        parsed.shared_access_key().unwrap_or_default(),
    );
    let client = if is_plain {
        ServiceBusClient::unsecured()
            .new_from_named_key_credential(namespace, credential, options)
            .await?
    } else {
        ServiceBusClient::new_from_named_key_credential(namespace, credential, options).await?
    };
    Ok(client)
}

pub fn text(body: &str) -> ServiceBusMessage {
    ServiceBusMessage::new(body)
}

pub fn texts(bodies: &[&str]) -> Vec<ServiceBusMessage> {
    bodies.iter().map(|body| text(body)).collect()
}

pub fn body(message: &ServiceBusReceivedMessage) -> Done<String> {
    Ok(String::from_utf8(message.body()?.to_vec())?)
}

pub fn bodies(messages: &[ServiceBusReceivedMessage]) -> Done<Vec<String>> {
    messages.iter().map(body).collect()
}

pub fn peeked(messages: &[ServiceBusPeekedMessage]) -> Done<Vec<String>> {
    let one = |message: &ServiceBusPeekedMessage| Ok(String::from_utf8(message.body()?.to_vec())?);
    messages.iter().map(one).collect()
}
