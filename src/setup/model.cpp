#include "setup/model.h"

#include "model/checkpoint/synthetic.h"

namespace nibble {

Model open_model(const std::string& argument, const Places& places) {
  Model model{find_model(argument, places), {}, nullptr};
  if (model.source.synthetic) {
    model.config = *model.source.synthetic;
  } else {
    model.weights = std::make_shared<const Weights>(open_weights(model.source.path));
    model.config = model.weights->config;
  }
  return model;
}

size_t weight_bytes(const Config& config) { return total_bytes(tensor_specs(config)); }

StorageFormats formats_of(const Model& model, const ResolvedSettings& setup) {
  const DenseFormats& dense = setup.options.dense;
  StorageFormats formats;
  if (model.weights) {
    formats = nibble::formats_of(*model.weights);
    if (!takes_blocks(setup)) {
      formats.embedding = converted_format(model.weights->embedding);
      formats.qkv = converted_format(model.weights->layers.front().q);
      formats.attention_output = converted_format(model.weights->layers.front().o);
      formats.unembedding = converted_format(model.weights->unembedding);
    }
  }
  if (dense.qkv != Format::kBf16) formats.qkv = dense.qkv;
  if (dense.attention_output != Format::kBf16) formats.attention_output = dense.attention_output;
  if (dense.unembedding != Format::kBf16) formats.unembedding = dense.unembedding;
  formats.kv = setup.options.kv_format;
  return formats;
}

}  // namespace nibble
