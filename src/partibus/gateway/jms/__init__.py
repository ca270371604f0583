"""What a JMS client asks of its links: subscriptions, selectors, browsers, temporary entities."""
