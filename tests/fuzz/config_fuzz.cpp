// Reads any text as the configuration of a model, and of a draft head. The model's configuration is refused
// with an InputError, or is valid: written and read again it is equal, its sizes do not overflow, and a step
// has a cost. The head's configuration is refused, or names existing layers of the model.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/errors/check.h"
#include "core/errors/error.h"
#include "model/config.h"
#include "model/draft_head/draft_head.h"
#include "model/ops.h"
#include "model/weights.h"

namespace {

void check_line(const nibble::InputError& error) {
  NIBBLE_CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos, "{}", error.what());
}

void read_as_draft_head(std::string_view text) {
  using namespace nibble;
  Config model = *named_config("gpt-oss-20b");
  model.hidden = 256;
  model.vocab = 4096;
  try {
    const DraftHeadConfig head = parse_draft_head_config(text, "fuzz", model);
    NIBBLE_CHECK(head.taps[0] >= 0 && head.taps[0] < head.taps[1] && head.taps[1] < head.taps[2]);
    NIBBLE_CHECK(head.taps[2] < model.num_layers && head.num_heads % head.num_kv_heads == 0);
    NIBBLE_CHECK(std::ssize(rope_frequencies(head).frequencies) == head.head_dim / 2);
  } catch (const InputError& error) {
    check_line(error);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nibble;
  read_as_draft_head({reinterpret_cast<const char*>(data), size});
  Config config;
  try {
    config = parse_config({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const InputError& error) {
    check_line(error);
    return 0;
  }
  const Config again = parse_config(to_json(config), "written");
  NIBBLE_CHECK(again == config, "{} is read back as {}", to_json(config), to_json(again));
  NIBBLE_CHECK(total(step_costs(config, {}, 1, config.max_context)).flops > 0, "{}", to_json(config));
  if (config.num_layers > 4) return 0;  // more layers take longer and reach no new code
  for (const TensorSpec& spec : tensor_specs(config)) {
    const auto elements = static_cast<unsigned __int128>(*num_elements(spec.shape));
    NIBBLE_CHECK(elements * static_cast<unsigned>(num_bits(spec.dtype)) / 8 == spec.num_bytes, "{}",
                 spec.name);
  }
  return 0;
}
