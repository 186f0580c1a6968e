// Whether the engine makes progress, for probes and the service manager.
#pragma once

#include "core/json.h"
#include "server/service/service.h"
#include "server/service/stall.h"

namespace nibble::server {

struct Condition {
  Stall stall{Stall::kNone};
  Json json{{"status", "ok"}};
};

Condition condition_of(const Service& service);

}  // namespace nibble::server
