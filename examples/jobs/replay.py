"""Send a capture to a queue or topic again, for spark-submit.

spark-submit --master URL replay.py --source ./lake --entity orders --connection-string-ref env:BUS
"""

import sys

from pyspark_servicebus.pipelines.replay import main

if __name__ == "__main__":
    sys.exit(main())
