#include "setup/plan/storage_formats.h"

#include "setup/plan/experts.h"

namespace nibble {

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
  formats.experts = experts_format(model, setup);
  if (dense.qkv != Format::kBf16) formats.qkv = dense.qkv;
  if (dense.attention_output != Format::kBf16) formats.attention_output = dense.attention_output;
  if (dense.unembedding != Format::kBf16) formats.unembedding = dense.unembedding;
  formats.kv = setup.options.kv_format;
  return formats;
}

}  // namespace nibble
