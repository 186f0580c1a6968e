// Reads any bytes as a GGUF file. The file is refused with one line, or its tensors lie inside it and do not
// overlap. Its metadata are refused with one line, or are a valid configuration and vocabulary.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "core/program/log.h"
#include "formats/container_error.h"
#include "formats/gguf.h"
#include "model/checkpoint/gguf_config.h"
#include "model/checkpoint/gguf_tokenizer.h"
#include "text/bpe_model.h"

namespace {

using namespace nibble;

unsigned read(const GgufValue& value) {
  unsigned sum = 0;
  for (const std::byte byte : value.bytes) sum += std::to_integer<unsigned>(byte);
  if (const auto texts = value.texts())
    for (const std::string_view text : *texts)
      for (const char letter : text) sum += static_cast<unsigned char>(letter);
  if (const auto numbers = value.integers()) sum += static_cast<unsigned>(numbers->size());
  return sum + value.integer().has_value() + value.number().has_value() + value.boolean().has_value() +
         value.text().has_value();
}

template <typename Action>
void refused_in_one_line(const Action& action) {
  try {
    action();
  } catch (const InputError& error) {
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  [[maybe_unused]] static const bool is_quiet = (spdlog::set_level(spdlog::level::err), true);
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  refused_in_one_line([&] {
    const Gguf gguf = parse_gguf(file, "fuzz");
    unsigned sum = 0;
    for (const auto& [key, value] : gguf.metadata) sum += read(value) + static_cast<unsigned>(key.size());
    const std::byte* end = file.data();
    for (const GgufTensor& tensor : gguf.tensors) {
      for (const std::byte byte : tensor.data) sum += std::to_integer<unsigned>(byte);
      if (tensor.data.data() < end) std::abort();
      end = tensor.data.data() + tensor.data.size();
      if (*num_elements(tensor.shape) / block_elements(tensor.type) * block_bytes(tensor.type) !=
          tensor.data.size())
        std::abort();
    }
    if (end > file.data() + file.size()) std::abort();
    // The volatile store keeps the compiler from removing the reads of every byte.
    [[maybe_unused]] volatile unsigned keep = sum;
    refused_in_one_line([&] { gguf_config(gguf); });
    refused_in_one_line([&] { read_tokenizer_json(tokenizer_json(gguf), "fuzz"); });
  });
  return 0;
}
