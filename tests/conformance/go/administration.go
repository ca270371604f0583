package main

import (
	"context"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

func init() {
	scenarios["administerQueue"] = administerQueue
	scenarios["administerTopic"] = administerTopic
	scenarios["administerRules"] = administerRules
	scenarios["listQueues"] = listQueues
	scenarios["namespaceProperties"] = namespaceProperties
	scenarios["queueExists"] = queueExists
	scenarios["createQueue"] = createQueue
	scenarios["filters"] = filters
}

func withAdmin(input Input, work func(context.Context, *admin.Client) (any, error)) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client, err := admin.NewClientFromConnectionString(input.Connection, nil)
	if err != nil {
		return nil, err
	}
	return work(ctx, client)
}

func administerQueue(input Input) (any, error) {
	return withAdmin(input, func(ctx context.Context, client *admin.Client) (any, error) {
		created, err := client.CreateQueue(ctx, input.Queue, &admin.CreateQueueOptions{Properties: &admin.QueueProperties{
			LockDuration: to.Ptr("PT30S"), MaxDeliveryCount: to.Ptr[int32](3), RequiresSession: to.Ptr(true),
			UserMetadata: to.Ptr("made by Go"),
		}})
		if err != nil {
			return nil, err
		}
		properties := created.QueueProperties
		properties.MaxDeliveryCount = to.Ptr[int32](5)
		if _, err := client.UpdateQueue(ctx, input.Queue, properties, nil); err != nil {
			return nil, err
		}
		found, err := client.GetQueue(ctx, input.Queue, nil)
		if err != nil {
			return nil, err
		}
		counted, err := client.GetQueueRuntimeProperties(ctx, input.Queue, nil)
		if err != nil {
			return nil, err
		}
		if _, err := client.DeleteQueue(ctx, input.Queue, nil); err != nil {
			return nil, err
		}
		gone, err := client.GetQueue(ctx, input.Queue, nil)
		return map[string]any{
			"lockDuration": *found.LockDuration, "maxDeliveryCount": *found.MaxDeliveryCount,
			"requiresSession": *found.RequiresSession, "userMetadata": *found.UserMetadata,
			"total": counted.TotalMessageCount, "gone": gone == nil,
		}, err
	})
}

func administerTopic(input Input) (any, error) {
	return withAdmin(input, func(ctx context.Context, client *admin.Client) (any, error) {
		if _, err := client.CreateTopic(ctx, input.Topic, nil); err != nil {
			return nil, err
		}
		_, err := client.CreateSubscription(ctx, input.Topic, "first", &admin.CreateSubscriptionOptions{
			Properties: &admin.SubscriptionProperties{MaxDeliveryCount: to.Ptr[int32](4)},
		})
		if err != nil {
			return nil, err
		}
		found, err := client.GetSubscription(ctx, input.Topic, "first", nil)
		if err != nil {
			return nil, err
		}
		names := []string{}
		pager := client.NewListSubscriptionsPager(input.Topic, nil)
		for pager.More() {
			page, err := pager.NextPage(ctx)
			if err != nil {
				return nil, err
			}
			for _, each := range page.Subscriptions {
				names = append(names, each.SubscriptionName)
			}
		}
		counted, err := client.GetTopicRuntimeProperties(ctx, input.Topic, nil)
		if err != nil {
			return nil, err
		}
		if _, err := client.DeleteSubscription(ctx, input.Topic, "first", nil); err != nil {
			return nil, err
		}
		_, err = client.DeleteTopic(ctx, input.Topic, nil)
		return map[string]any{
			"maxDeliveryCount": *found.MaxDeliveryCount, "names": names, "count": counted.SubscriptionCount,
		}, err
	})
}

func administerRules(input Input) (any, error) {
	return withAdmin(input, func(ctx context.Context, client *admin.Client) (any, error) {
		_, err := client.CreateRule(ctx, input.Topic, input.Subscription, &admin.CreateRuleOptions{
			Name: to.Ptr("large"), Filter: &admin.SQLFilter{Expression: "size > 10"},
			Action: &admin.SQLAction{Expression: "SET seen = 1"},
		})
		if err != nil {
			return nil, err
		}
		_, err = client.CreateRule(ctx, input.Topic, input.Subscription, &admin.CreateRuleOptions{
			Name: to.Ptr("red"), Filter: &admin.CorrelationFilter{
				Subject: to.Ptr("red"), ApplicationProperties: map[string]any{"colour": "red"},
			},
		})
		if err != nil {
			return nil, err
		}
		if _, err := client.DeleteRule(ctx, input.Topic, input.Subscription, "$Default", nil); err != nil {
			return nil, err
		}
		found := map[string]any{}
		pager := client.NewListRulesPager(input.Topic, input.Subscription, nil)
		for pager.More() {
			page, err := pager.NextPage(ctx)
			if err != nil {
				return nil, err
			}
			for _, rule := range page.Rules {
				found[rule.Name] = shownRule(rule)
			}
		}
		return found, nil
	})
}

func shownRule(rule admin.RuleProperties) any {
	shown := map[string]any{}
	switch filter := rule.Filter.(type) {
	case *admin.SQLFilter:
		shown["sql"] = filter.Expression
	case *admin.CorrelationFilter:
		shown["subject"], shown["properties"] = filter.Subject, filter.ApplicationProperties
	}
	if action, ok := rule.Action.(*admin.SQLAction); ok && action != nil {
		shown["action"] = action.Expression
	}
	return shown
}

func listQueues(input Input) (any, error) {
	return withAdmin(input, func(ctx context.Context, client *admin.Client) (any, error) {
		names := []string{}
		pager := client.NewListQueuesPager(&admin.ListQueuesOptions{MaxPageSize: 2})
		for pager.More() {
			page, err := pager.NextPage(ctx)
			if err != nil {
				return nil, err
			}
			for _, queue := range page.Queues {
				names = append(names, queue.QueueName)
			}
		}
		return names, nil
	})
}

func namespaceProperties(input Input) (any, error) {
	return withAdmin(input, func(ctx context.Context, client *admin.Client) (any, error) {
		found, err := client.GetNamespaceProperties(ctx, nil)
		return map[string]any{"named": found.Name != "", "sku": found.SKU}, err
	})
}

func queueExists(input Input) (any, error) {
	return withAdmin(input, func(ctx context.Context, client *admin.Client) (any, error) {
		found, err := client.GetQueue(ctx, input.Queue, nil)
		return found != nil, err
	})
}

func createQueue(input Input) (any, error) {
	return withAdmin(input, func(ctx context.Context, client *admin.Client) (any, error) {
		_, err := client.CreateQueue(ctx, input.Queue, nil)
		return nil, err
	})
}

// filters sends to a topic and receives what the rules of a subscription let through.
func filters(input Input) (any, error) {
	return withBus(input, func(b bus) (any, error) {
		for _, colour := range []string{"red", "blue"} {
			message := text(colour)
			message.ApplicationProperties = map[string]any{"colour": colour}
			if err := b.send(input.Topic, message); err != nil {
				return nil, err
			}
		}
		receiver, err := b.NewReceiverForSubscription(input.Topic, input.Subscription, &azservicebus.ReceiverOptions{
			ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete,
		})
		if err != nil {
			return nil, err
		}
		messages, err := b.collect(receiver, 1)
		if err != nil {
			return nil, err
		}
		left, err := receiver.PeekMessages(b, 10, nil)
		return map[string]any{"bodies": bodies(messages), "left": len(left)}, err
	})
}
