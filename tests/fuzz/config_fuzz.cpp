// Reads any text as a configuration. It is refused with an InputError, or it is valid: written and read back it is equal, its
// sizes do not overflow, and a step has a cost.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/check.h"
#include "core/error.h"
#include "model/config.h"
#include "model/ops.h"
#include "model/weights.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nibble;
  Config config;
  try {
    config = parse_config({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const InputError& error) {
    NIBBLE_CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos, "{}", error.what());
    return 0;
  }
  const Config again = parse_config(to_json(config), "written");
  NIBBLE_CHECK(again == config, "{} is read back as {}", to_json(config), to_json(again));
  NIBBLE_CHECK(total(step_costs(config, {}, 1, config.max_context)).flops > 0, "{}", to_json(config));
  if (config.num_layers > 4) return 0;  // more layers take longer and show nothing new
  for (const TensorSpec& spec : tensor_specs(config)) {
    const auto elements = static_cast<unsigned __int128>(*num_elements(spec.shape));
    NIBBLE_CHECK(elements * static_cast<unsigned>(num_bits(spec.dtype)) / 8 == spec.num_bytes, "{}",
                 spec.name);
  }
  return 0;
}
