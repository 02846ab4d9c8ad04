"""Whether the proxy in this container should get requests: the exit code is 1 if not."""

import os
import sys
import urllib.error
import urllib.request

address = f"http://127.0.0.1:{os.environ.get('EBB_PORT', '8787')}/readyz"
request = urllib.request.Request(address, headers={"x-ebb-token": os.environ["EBB_PROXY_TOKEN"]})
try:
    urllib.request.urlopen(request, timeout=5)
except (urllib.error.URLError, OSError) as error:
    sys.exit(f"not ready: {error}")
