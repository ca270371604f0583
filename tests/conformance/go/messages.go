package main

import (
	"errors"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

func init() {
	scenarios["send"] = send
	scenarios["batch"] = batch
	scenarios["large"] = large
	scenarios["complete"] = complete
	scenarios["receiveAndDelete"] = receiveAndDelete
	scenarios["abandon"] = abandon
	scenarios["deadLetter"] = deadLetter
	scenarios["deferral"] = deferral
	scenarios["renewLock"] = renewLock
	scenarios["lockLost"] = lockLost
	scenarios["peek"] = peek
	scenarios["schedule"] = schedule
}

func send(input Input) (any, error) {
	return withBus(input, func(b bus) (any, error) {
		err := b.send(input.Queue, &azservicebus.Message{
			Body: []byte("first"), MessageID: to.Ptr("the-id"), ContentType: to.Ptr("text/plain"),
			CorrelationID: to.Ptr("the-correlation"), Subject: to.Ptr("the-subject"),
			To: to.Ptr("the-destination"), ReplyTo: to.Ptr("the-reply"), TimeToLive: to.Ptr(time.Hour),
			ApplicationProperties: map[string]any{
				"text": "grüße", "number": int64(-7), "fraction": 1.5, "yes": true,
			},
		})
		if err != nil {
			return nil, err
		}
		messages, err := b.take(input.Queue, 1, 0)
		if err != nil {
			return nil, err
		}
		m := messages[0]
		return map[string]any{
			"body": string(m.Body), "messageId": m.MessageID, "contentType": m.ContentType,
			"correlationId": m.CorrelationID, "subject": m.Subject, "to": m.To, "replyTo": m.ReplyTo,
			"timeToLiveSeconds": m.TimeToLive.Seconds(), "properties": m.ApplicationProperties,
		}, nil
	})
}

func batch(input Input) (any, error) {
	return withBus(input, func(b bus) (any, error) {
		sender, err := b.NewSender(input.Queue, nil)
		if err != nil {
			return nil, err
		}
		batch, err := sender.NewMessageBatch(b, nil)
		if err != nil {
			return nil, err
		}
		for number := range input.Count {
			if err := batch.AddMessage(text(strconv.Itoa(number)), nil); err != nil {
				return nil, err
			}
		}
		if err := sender.SendMessageBatch(b, batch, nil); err != nil {
			return nil, err
		}
		messages, err := b.take(input.Queue, input.Count, 0)
		return bodies(messages), err
	})
}

func large(input Input) (any, error) {
	return withBus(input, func(b bus) (any, error) {
		body := make([]byte, input.Size)
		for index := range body {
			body[index] = byte(index)
		}
		if err := b.send(input.Queue, &azservicebus.Message{Body: body}); err != nil {
			return nil, err
		}
		messages, err := b.take(input.Queue, 1, 0)
		if err != nil {
			return nil, err
		}
		return map[string]any{"length": len(messages[0].Body), "same": string(messages[0].Body) == string(body)}, nil
	})
}

// locked sends texts and receives as many messages under their locks.
func locked(input Input, work func(bus, *azservicebus.Receiver, []*azservicebus.ReceivedMessage) (any, error), texts ...string) (any, error) {
	return withBus(input, func(b bus) (any, error) {
		for _, body := range texts {
			if err := b.send(input.Queue, text(body)); err != nil {
				return nil, err
			}
		}
		receiver, err := b.NewReceiverForQueue(input.Queue, nil)
		if err != nil {
			return nil, err
		}
		messages, err := b.collect(receiver, len(texts))
		if err != nil {
			return nil, err
		}
		return work(b, receiver, messages)
	})
}

func complete(input Input) (any, error) {
	return locked(input, func(b bus, r *azservicebus.Receiver, messages []*azservicebus.ReceivedMessage) (any, error) {
		for _, message := range messages {
			if err := r.CompleteMessage(b, message, nil); err != nil {
				return nil, err
			}
		}
		left, err := b.left(input.Queue)
		return map[string]any{"bodies": bodies(messages), "left": len(left)}, err
	}, "one", "two")
}

func receiveAndDelete(input Input) (any, error) {
	return withBus(input, func(b bus) (any, error) {
		if err := b.send(input.Queue, text("one"), text("two")); err != nil {
			return nil, err
		}
		messages, err := b.take(input.Queue, 2, 0)
		if err != nil {
			return nil, err
		}
		left, err := b.left(input.Queue)
		return map[string]any{"bodies": bodies(messages), "left": len(left)}, err
	})
}

// The client counts deliveries from 1 where the protocol counts from 0.
func abandon(input Input) (any, error) {
	return locked(input, func(b bus, r *azservicebus.Receiver, messages []*azservicebus.ReceivedMessage) (any, error) {
		changed := map[string]any{"tries": int64(1)}
		if err := r.AbandonMessage(b, messages[0], &azservicebus.AbandonMessageOptions{PropertiesToModify: changed}); err != nil {
			return nil, err
		}
		again, err := b.one(r)
		if err != nil {
			return nil, err
		}
		return map[string]any{
			"deliveryCounts": []uint32{messages[0].DeliveryCount - 1, again.DeliveryCount - 1},
			"same":           *messages[0].SequenceNumber == *again.SequenceNumber,
			"properties":     again.ApplicationProperties,
		}, r.CompleteMessage(b, again, nil)
	}, "one")
}

func deadLetter(input Input) (any, error) {
	return locked(input, func(b bus, r *azservicebus.Receiver, messages []*azservicebus.ReceivedMessage) (any, error) {
		err := r.DeadLetterMessage(b, messages[0], &azservicebus.DeadLetterOptions{
			Reason: to.Ptr("Unreadable"), ErrorDescription: to.Ptr("not JSON"),
			PropertiesToModify: map[string]any{"tenant": "a"},
		})
		if err != nil {
			return nil, err
		}
		dead, err := b.take(input.Queue, 1, azservicebus.SubQueueDeadLetter)
		if err != nil {
			return nil, err
		}
		return map[string]any{
			"body": string(dead[0].Body), "reason": dead[0].DeadLetterReason,
			"description": dead[0].DeadLetterErrorDescription, "tenant": dead[0].ApplicationProperties["tenant"],
		}, nil
	}, "bad")
}

func deferral(input Input) (any, error) {
	return locked(input, func(b bus, r *azservicebus.Receiver, messages []*azservicebus.ReceivedMessage) (any, error) {
		if err := r.DeferMessage(b, messages[0], nil); err != nil {
			return nil, err
		}
		deferred, err := r.ReceiveDeferredMessages(b, []int64{*messages[0].SequenceNumber}, nil)
		if err != nil {
			return nil, err
		}
		if err := r.CompleteMessage(b, deferred[0], nil); err != nil {
			return nil, err
		}
		left, err := b.left(input.Queue)
		return map[string]any{"bodies": bodies(deferred), "state": int(deferred[0].State), "left": len(left)}, err
	}, "later")
}

// A lock that is renewed within the millisecond in which it was taken lasts no longer than before.
const renewalsMax = 100

func renewLock(input Input) (any, error) {
	return locked(input, func(b bus, r *azservicebus.Receiver, messages []*azservicebus.ReceivedMessage) (any, error) {
		before := *messages[0].LockedUntil
		for tries := 0; tries < renewalsMax && !messages[0].LockedUntil.After(before); tries++ {
			if err := r.RenewMessageLock(b, messages[0], nil); err != nil {
				return nil, err
			}
		}
		later := messages[0].LockedUntil.After(before)
		return map[string]any{"later": later}, r.CompleteMessage(b, messages[0], nil)
	}, "one")
}

// lockLost waits for the loss of a lock by receiving the message again.
func lockLost(input Input) (any, error) {
	return locked(input, func(b bus, r *azservicebus.Receiver, messages []*azservicebus.ReceivedMessage) (any, error) {
		holder, err := b.NewReceiverForQueue(input.Queue, nil)
		if err != nil {
			return nil, err
		}
		held, err := b.one(holder)
		if err != nil {
			return nil, err
		}
		if held.DeliveryCount != 2 {
			return nil, errors.New("the message did not come back")
		}
		return nil, r.CompleteMessage(b, messages[0], nil)
	}, "one")
}

func peek(input Input) (any, error) {
	return withBus(input, func(b bus) (any, error) {
		if err := b.send(input.Queue, text("one"), text("two"), text("three")); err != nil {
			return nil, err
		}
		receiver, err := b.NewReceiverForQueue(input.Queue, nil)
		if err != nil {
			return nil, err
		}
		first, err := receiver.PeekMessages(b, 2, nil)
		if err != nil {
			return nil, err
		}
		from := *first[1].SequenceNumber
		second, err := receiver.PeekMessages(b, 10, &azservicebus.PeekMessagesOptions{FromSequenceNumber: &from})
		return [][]string{bodies(first), bodies(second)}, err
	})
}

func schedule(input Input) (any, error) {
	return withBus(input, func(b bus) (any, error) {
		sender, err := b.NewSender(input.Queue, nil)
		if err != nil {
			return nil, err
		}
		numbers, err := sender.ScheduleMessages(b, []*azservicebus.Message{text("never"), text("much later")}, time.Now().Add(time.Hour), nil)
		if err != nil {
			return nil, err
		}
		if err := sender.CancelScheduledMessages(b, numbers[:1], nil); err != nil {
			return nil, err
		}
		waiting, err := b.left(input.Queue)
		if err != nil {
			return nil, err
		}
		if _, err := sender.ScheduleMessages(b, []*azservicebus.Message{text("soon")}, time.Now().Add(time.Second), nil); err != nil {
			return nil, err
		}
		due, err := b.take(input.Queue, 1, 0)
		if err != nil {
			return nil, err
		}
		return map[string]any{
			"waiting": bodies(waiting), "state": int(waiting[0].State), "due": bodies(due),
			"numbered": *waiting[0].SequenceNumber == numbers[1],
		}, nil
	})
}
