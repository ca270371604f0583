package main

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

func init() {
	scenarios["namedSession"] = namedSession
	scenarios["nextSession"] = nextSession
	scenarios["sessionState"] = sessionState
	scenarios["renewSession"] = renewSession
	scenarios["heldSession"] = heldSession
	scenarios["noSession"] = noSession
	scenarios["sessionSettlement"] = sessionSettlement
	scenarios["listSessions"] = listSessions
}

func inSession(session, body string) *azservicebus.Message {
	return &azservicebus.Message{Body: []byte(body), SessionID: to.Ptr(session)}
}

func namedSession(input Input) (any, error) {
	return withBus(input, func(b bus) (any, error) {
		if err := b.send(input.Queue, inSession("a", "a1"), inSession("b", "b1"), inSession("a", "a2")); err != nil {
			return nil, err
		}
		receiver, err := b.AcceptSessionForQueue(b, input.Queue, "a", nil)
		if err != nil {
			return nil, err
		}
		messages, err := b.collect(receiver, 2)
		if err != nil {
			return nil, err
		}
		for _, message := range messages {
			if err := receiver.CompleteMessage(b, message, nil); err != nil {
				return nil, err
			}
		}
		left, err := receiver.PeekMessages(b, 10, nil)
		return map[string]any{"session": receiver.SessionID(), "bodies": bodies(messages), "left": len(left)}, err
	})
}

func nextSession(input Input) (any, error) {
	return withBus(input, func(b bus) (any, error) {
		if err := b.send(input.Queue, inSession("a", "a1"), inSession("b", "b1")); err != nil {
			return nil, err
		}
		found := map[string][]string{}
		for range 2 {
			receiver, err := b.AcceptNextSessionForQueue(b, input.Queue, nil)
			if err != nil {
				return nil, err
			}
			messages, err := b.collect(receiver, 1)
			if err != nil {
				return nil, err
			}
			found[receiver.SessionID()] = bodies(messages)
		}
		return found, nil
	})
}

func sessionState(input Input) (any, error) {
	return withBus(input, func(b bus) (any, error) {
		receiver, err := b.AcceptSessionForQueue(b, input.Queue, "a", nil)
		if err != nil {
			return nil, err
		}
		empty, err := receiver.GetSessionState(b, nil)
		if err != nil {
			return nil, err
		}
		if err := receiver.SetSessionState(b, []byte("half way"), nil); err != nil {
			return nil, err
		}
		kept, err := receiver.GetSessionState(b, nil)
		if err != nil {
			return nil, err
		}
		if err := receiver.SetSessionState(b, nil, nil); err != nil {
			return nil, err
		}
		cleared, err := receiver.GetSessionState(b, nil)
		return []any{string(empty), string(kept), string(cleared)}, err
	})
}

func renewSession(input Input) (any, error) {
	return withBus(input, func(b bus) (any, error) {
		receiver, err := b.AcceptSessionForQueue(b, input.Queue, "a", nil)
		if err != nil {
			return nil, err
		}
		before := receiver.LockedUntil()
		for tries := 0; tries < renewalsMax && !receiver.LockedUntil().After(before); tries++ {
			if err := receiver.RenewSessionLock(b, nil); err != nil {
				return nil, err
			}
		}
		return map[string]any{"later": receiver.LockedUntil().After(before)}, nil
	})
}

// heldSession asks for a session that another receiver holds.
func heldSession(input Input) (any, error) {
	return withBus(input, func(b bus) (any, error) {
		if _, err := b.AcceptSessionForQueue(b, input.Queue, "a", nil); err != nil {
			return nil, err
		}
		_, err := b.AcceptSessionForQueue(b, input.Queue, "a", nil)
		return nil, err
	})
}

// noSession asks for the next session where there is none.
func noSession(input Input) (any, error) {
	return withBus(input, func(b bus) (any, error) {
		ctx, cancel := context.WithTimeout(b, 2*time.Second)
		defer cancel()
		_, err := b.AcceptNextSessionForQueue(ctx, input.Queue, nil)
		return nil, err
	})
}

func sessionSettlement(input Input) (any, error) {
	return withBus(input, func(b bus) (any, error) {
		if err := b.send(input.Queue, inSession("a", "again"), inSession("a", "dead"), inSession("a", "later")); err != nil {
			return nil, err
		}
		receiver, err := b.AcceptSessionForQueue(b, input.Queue, "a", nil)
		if err != nil {
			return nil, err
		}
		messages, err := b.collect(receiver, 3)
		if err != nil {
			return nil, err
		}
		if err := receiver.AbandonMessage(b, messages[0], nil); err != nil {
			return nil, err
		}
		if err := receiver.DeadLetterMessage(b, messages[1], nil); err != nil {
			return nil, err
		}
		if err := receiver.DeferMessage(b, messages[2], nil); err != nil {
			return nil, err
		}
		again, err := b.one(receiver)
		if err != nil {
			return nil, err
		}
		deferred, err := receiver.ReceiveDeferredMessages(b, []int64{*messages[2].SequenceNumber}, nil)
		if err != nil {
			return nil, err
		}
		dead, err := b.take(input.Queue, 1, azservicebus.SubQueueDeadLetter)
		return []string{string(again.Body), string(dead[0].Body), string(deferred[0].Body)}, err
	})
}

// listSessions asks page by page for the sessions that have messages.
func listSessions(input Input) (any, error) {
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
			if err := batch.AddMessage(inSession(strconv.Itoa(number), "x"), nil); err != nil {
				return nil, err
			}
		}
		if err := sender.SendMessageBatch(b, batch, nil); err != nil {
			return nil, err
		}
		found := []string{}
		pager := b.NewListSessionsForQueuePager(input.Queue, nil)
		for pager.More() {
			page, err := pager.NextPage(b)
			if err != nil {
				return nil, err
			}
			found = append(found, page.Sessions...)
		}
		slices.Sort(found)
		return found, nil
	})
}
