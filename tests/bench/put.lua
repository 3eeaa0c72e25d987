-- wrk script: PUTs of 256 bytes on keys of a fixed set, and one line of figures at the end for v2_put.py.
local value = "value=" .. string.rep("x", 256)
local headers = { ["Content-Type"] = "application/x-www-form-urlencoded" }
local count = 0

function init(arguments)
  math.randomseed(tonumber(arguments[1] or "1"))
end

function request()
  count = count + 1
  return wrk.format("PUT", string.format("/v2/keys/bench/%08d", math.random(0, 9999)), headers, value)
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format("FIGURES %d %d %d %.1f %.1f %.1f\n", summary.requests, summary.duration,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout,
    latency:percentile(50), latency:percentile(99), latency.max))
end
