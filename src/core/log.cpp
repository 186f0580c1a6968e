#include "core/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

namespace nibble::log {

void start(spdlog::level::level_enum level) {
  auto logger = spdlog::stderr_color_mt("nibble");
  logger->set_pattern("%^%L%$ %v");
  logger->set_level(level);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace nibble::log
