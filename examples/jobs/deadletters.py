"""Dead letters of a namespace, for spark-submit.

spark-submit --master URL examples/jobs/deadletters.py --connection-string-ref env:BUS \
    --rules rules.toml --dry-run
"""

import sys

from pyspark_servicebus.pipelines.deadletters import main

if __name__ == "__main__":
    sys.exit(main())
