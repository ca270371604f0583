"""The traffic of queues and subscriptions, for spark-submit.

spark-submit --master URL examples/jobs/analytics.py --connection-string-ref env:BUS \
    --output ./traffic
"""

import sys

from pyspark_servicebus.pipelines.analytics import main

if __name__ == "__main__":
    sys.exit(main())
