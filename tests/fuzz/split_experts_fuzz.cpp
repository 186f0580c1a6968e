// Reads any safetensors header as a checkpoint that stores the bias of each expert in a tensor of its own.
// The biases are refused with one line, or the tensor of each expert is found and every value is set.
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "core/errors/check.h"
#include "core/errors/error.h"
#include "formats/container.h"
#include "formats/safetensors.h"
#include "model/checkpoint/split_experts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nibble;
  // The input is the header of a file. The kDataBytes zeros after it are the data of its tensors.
  constexpr size_t kDataBytes{64};
  uint64_t length = size;
  std::vector<std::byte> file(sizeof(length) + size + kDataBytes);
  std::memcpy(file.data(), &length, sizeof(length));
  if (size > 0) std::memcpy(file.data() + sizeof(length), data, size);
  const TensorSpec spec{
      "model.layers.0.mlp.experts.down_proj_bias", TensorKind::kBias, DType::kBf16, {2, 4}, 16};
  try {
    Container container;
    container.files = {"fuzz"};
    for (size_t cut = 0; cut <= kDataBytes && container.tensors.empty(); cut += 8) try {
        container.tensors = parse_safetensors(std::span(file).first(file.size() - cut), "fuzz");
      } catch (const InputError&) {
        if (cut == kDataBytes) throw;
      }
    container.index();
    const auto biases = find_split_biases(container, spec);
    if (!biases) return 0;
    NIBBLE_CHECK(biases->tensors.size() == 2 && biases->values.bytes() == 8 * sizeof(float));
    for (int i = 0; i < 8; ++i) NIBBLE_CHECK(biases->values.as<float>()[i] == 0, "{}", i);
  } catch (const InputError& error) {
    NIBBLE_CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos, "{}", error.what());
  }
  return 0;
}
