// Reads any bytes as a LoRA adapter for a small model: a GGUF file if they begin with GGUF; else a
// configuration of PEFT, a zero byte, and the header of a safetensors file, whose data are zeros. The adapter
// is refused with one line, or its updates lie inside the file and fit the model.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "core/errors/check.h"
#include "core/errors/error.h"
#include "core/program/log.h"
#include "formats/container.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "model/adapter/gguf_adapter.h"
#include "model/adapter/peft_adapter.h"
#include "model/adapter/peft_config.h"

namespace {

using namespace nibble;

Config small_model() {
  Config config;
  config.num_layers = 2;
  config.hidden = config.intermediate = 2;
  config.num_heads = config.num_kv_heads = 1;
  config.head_dim = 2;
  config.num_experts = 2;
  config.vocab = 3;
  return config;
}

// Applies every update to a matrix of zeros, which reads all its factors.
void add_all(const std::vector<MatrixUpdate>& updates, const Config& config) {
  for (const MatrixUpdate& part : updates) {
    NIBBLE_CHECK(part.layer >= 0 && part.layer < config.num_layers, "layer {}", part.layer);
    NIBBLE_CHECK(part.expert >= 0 && part.expert < config.num_experts, "expert {}", part.expert);
    const auto [rows, cols] = extents_of(part.matrix, config);
    std::vector<float> values(static_cast<size_t>(rows) * static_cast<size_t>(cols));
    add_update(part.update, 0, static_cast<size_t>(cols), values);
  }
}

void read_gguf(std::span<const std::byte> file, const Config& config) {
  Gguf gguf = parse_gguf(file, "fuzz");
  gguf.files = {"fuzz"};
  gguf.index();
  const GgufUpdates found = read_gguf_adapter(gguf, config);
  add_all(found.updates, config);
}

// Returns the number of data bytes that a header implies: the largest number before a ']' that is at most
// kMost.
size_t num_data_bytes(std::string_view header) {
  constexpr size_t kMost{512};
  size_t most = 0;
  for (size_t at = header.find(']'); at != std::string_view::npos; at = header.find(']', at + 1)) {
    const size_t begin = header.substr(0, at).find_last_not_of("0123456789") + 1;
    size_t number = 0;
    std::from_chars(header.data() + begin, header.data() + at, number);
    if (number <= kMost) most = std::max(most, number);
  }
  return most;
}

void read_peft(std::string_view json, std::string_view header, const Config& config) {
  const PeftConfig peft = parse_peft_config(json, "fuzz");
  const uint64_t length = header.size();
  std::vector<std::byte> file(sizeof(length) + header.size() + num_data_bytes(header));
  std::memcpy(file.data(), &length, sizeof(length));
  std::ranges::copy(std::as_bytes(std::span(header)), file.begin() + sizeof(length));
  Container container;
  container.files = {"fuzz"};
  container.tensors = parse_safetensors(file, "fuzz");
  container.index();
  add_all(read_peft_tensors(container, peft, config), config);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  [[maybe_unused]] static const bool is_quiet = (spdlog::set_level(spdlog::level::err), true);
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Config config = small_model();
  try {
    if (text.starts_with("GGUF")) {
      read_gguf(bytes, config);
    } else {
      const std::string_view json = text.substr(0, text.find('\0'));
      read_peft(json, text.substr(std::min(size, json.size() + 1)), config);
    }
  } catch (const InputError& error) {
    NIBBLE_CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos, "{}", error.what());
  }
  return 0;
}
