// Reports whether the engine makes progress, to probes and to the service manager.
#pragma once

#include "core/text/json.h"
#include "server/service/service.h"
#include "server/service/stall.h"

namespace nibble::server {

struct Condition {
  Stall stall{Stall::kNone};
  Json json{{"status", "ok"}};
};

Condition condition_of(const Service& service);

}  // namespace nibble::server
