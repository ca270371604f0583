"""Send messages from entity to entity, changed by SQL or a function, for spark-submit.

spark-submit --master URL transform.py --source orders --target bills \
    --sql 'select body, subject from messages' --connection-string-ref env:BUS
"""

import sys

from pyspark_servicebus.pipelines.transform import main

if __name__ == "__main__":
    sys.exit(main())
