package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/coder/websocket"
)

// Far above what any scenario takes, on a machine that is busy with other tests too.
const patience = 60 * time.Second

// bus is the client of one scenario, with its deadline.
type bus struct {
	context.Context
	*azservicebus.Client
}

// receiver is what receivers of queues, subscriptions and sessions have in common.
type receiver interface {
	ReceiveMessages(context.Context, int, *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
}

func withBus(input Input, work func(bus) (any, error)) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	options := &azservicebus.ClientOptions{RetryOptions: azservicebus.RetryOptions{MaxRetries: -1}}
	options.CustomEndpoint = input.Endpoint
	if input.WebSocket {
		options.NewWebSocketConn = dialWebSocket
	}
	client, err := azservicebus.NewClientFromConnectionString(input.Connection, options)
	if err != nil {
		return nil, err
	}
	defer client.Close(ctx)
	return work(bus{ctx, client})
}

// dialWebSocket is the function of the client's own documentation.
func dialWebSocket(ctx context.Context, args azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
	options := &websocket.DialOptions{Subprotocols: []string{"amqp"}}
	connection, _, err := websocket.Dial(ctx, args.Host, options)
	if err != nil {
		return nil, err
	}
	return websocket.NetConn(context.Background(), connection, websocket.MessageBinary), nil
}

func (b bus) send(entity string, messages ...*azservicebus.Message) error {
	sender, err := b.NewSender(entity, nil)
	if err != nil {
		return err
	}
	defer sender.Close(b)
	for _, message := range messages {
		if err := sender.SendMessage(b, message, nil); err != nil {
			return err
		}
	}
	return nil
}

// collect gives exactly count messages: a receive returns as soon as some have come.
func (b bus) collect(from receiver, count int) ([]*azservicebus.ReceivedMessage, error) {
	var messages []*azservicebus.ReceivedMessage
	for len(messages) < count {
		more, err := from.ReceiveMessages(b, count-len(messages), nil)
		if err != nil {
			return nil, fmt.Errorf("after %d of %d messages: %w", len(messages), count, err)
		}
		messages = append(messages, more...)
	}
	return messages, nil
}

func (b bus) one(from receiver) (*azservicebus.ReceivedMessage, error) {
	messages, err := b.collect(from, 1)
	if err != nil {
		return nil, err
	}
	return messages[0], nil
}

// take receives and deletes count messages of a queue or of its dead-letter queue.
func (b bus) take(queue string, count int, part azservicebus.SubQueue) ([]*azservicebus.ReceivedMessage, error) {
	taker, err := b.NewReceiverForQueue(queue, &azservicebus.ReceiverOptions{
		ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete, SubQueue: part,
	})
	if err != nil {
		return nil, err
	}
	defer taker.Close(b)
	return b.collect(taker, count)
}

// left is what a peek of the queue shows.
func (b bus) left(queue string) ([]*azservicebus.ReceivedMessage, error) {
	peeker, err := b.NewReceiverForQueue(queue, nil)
	if err != nil {
		return nil, err
	}
	defer peeker.Close(b)
	return peeker.PeekMessages(b, 100, nil)
}

func text(body string) *azservicebus.Message {
	return &azservicebus.Message{Body: []byte(body)}
}

func bodies(messages []*azservicebus.ReceivedMessage) []string {
	found := []string{}
	for _, message := range messages {
		found = append(found, string(message.Body))
	}
	return found
}
