package main

import (
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

func init() {
	scenarios["sendOnly"] = sendOnly
	scenarios["receiveOnly"] = receiveOnly
}

// sendOnly sends a message of a size to a queue, whatever becomes of it.
func sendOnly(input Input) (any, error) {
	return withBus(input, func(b bus) (any, error) {
		return nil, b.send(input.Queue, &azservicebus.Message{Body: make([]byte, input.Size)})
	})
}

func receiveOnly(input Input) (any, error) {
	return withBus(input, func(b bus) (any, error) {
		messages, err := b.take(input.Queue, 1, 0)
		return bodies(messages), err
	})
}
