// The names of gpt-oss's tensors: in Hugging Face's checkpoints, in OpenAI's, and in GGUF files.
#pragma once

#include <string_view>

namespace nibble {

struct TensorName {
  std::string_view huggingface, openai, gguf;  // without the layer's prefix
  std::string_view layer{};                    // "7" in "model.layers.7.self_attn.sinks"; else empty
};

// `huggingface` is the whole name, which must be in the table and outlive the result.
TensorName tensor_name(std::string_view huggingface);

}  // namespace nibble
