// A small model, and helpers that write it to files and compare models byte by byte.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "formats/open_container.h"
#include "formats/safetensors_writer.h"
#include "model/config.h"
#include "model/weights.h"

namespace nibble {

inline Config small_config() {
  Config config;
  config.num_layers = 3;
  config.hidden = 64;
  config.intermediate = 96;
  config.num_heads = 6;
  config.num_kv_heads = 2;
  config.head_dim = 16;
  config.num_experts = 5;
  config.experts_per_token = 2;
  config.vocab = 99;
  config.window = 8;
  config.layer_kinds = {LayerKind::kFull, LayerKind::kSliding, LayerKind::kFull};
  config.eos = {7, 9};
  return config;
}

// A temporary folder that the destructor removes.
class TestFolder {
 public:
  TestFolder()
      : path_(std::filesystem::path(testing::TempDir()) /
              ("nibble_model_" + std::to_string(::getpid()) + "_" +
               testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  ~TestFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

struct OwnedTensor {
  DType dtype;
  Shape shape;
  std::vector<std::byte> bytes;
};
using OwnedTensors = std::map<std::string, OwnedTensor>;

inline OwnedTensors read_tensors(const std::filesystem::path& folder) {
  const Container container = open_container_folder(folder);
  OwnedTensors tensors;
  for (const Tensor& tensor : container.tensors)
    tensors[tensor.name] = {tensor.dtype, tensor.shape, {tensor.data.begin(), tensor.data.end()}};
  return tensors;
}

inline void write_text(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

// Writes one safetensors file, and config.json next to the file.
inline void write_checkpoint(const std::filesystem::path& file, const OwnedTensors& tensors,
                             const std::string& config) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : tensors) entries.push_back({name, tensor.dtype, tensor.shape});
  SafetensorsWriter writer(file, entries);
  for (const SafetensorsEntry& entry : writer.entries()) writer.append(tensors.at(entry.name).bytes);
  writer.finish();
  write_text(file.parent_path() / "config.json", config);
}

// Returns the bytes of every field by name, so that models from different sources can be compared.
inline std::map<std::string, std::string> bytes_of(const Weights& weights) {
  std::map<std::string, std::string> all;
  const auto add = [&](const std::string& name, const void* data, size_t bytes) {
    all[name] = std::string(static_cast<const char*>(data), bytes);
  };
  const auto add_vector = [&](const std::string& name, const Vector& x) {
    add(name, x.data, num_bytes(x.format, static_cast<size_t>(x.count)));
  };
  const auto add_matrix = [&](const std::string& name, const Matrix& x) {
    const size_t count = static_cast<size_t>(x.rows) * static_cast<size_t>(x.cols);
    const Elements& elements = x.elements();
    add(name, elements.data, elements.scales ? count / 2 : num_bytes(elements.format, count));
    if (elements.scales) add(name + " scales", elements.scales, count / 32);
    if (elements.row_scales)
      add(name + " row scales", elements.row_scales, static_cast<size_t>(x.rows) * sizeof(float));
  };
  add_matrix("embedding", weights.embedding);
  add_matrix("unembedding", weights.unembedding);
  add_vector("final_norm", weights.final_norm);
  for (size_t n = 0; n < weights.layers.size(); ++n) {
    const LayerWeights& layer = weights.layers[n];
    const std::string prefix = std::to_string(n) + " ";
    add_vector(prefix + "attention_norm", layer.attention_norm);
    add_matrix(prefix + "q", layer.q);
    add_matrix(prefix + "k", layer.k);
    add_matrix(prefix + "v", layer.v);
    add_vector(prefix + "q_bias", layer.q_bias);
    add_vector(prefix + "k_bias", layer.k_bias);
    add_vector(prefix + "v_bias", layer.v_bias);
    add_vector(prefix + "sinks", layer.sinks);
    add_matrix(prefix + "o", layer.o);
    add_vector(prefix + "o_bias", layer.o_bias);
    add_vector(prefix + "mlp_norm", layer.mlp_norm);
    add_matrix(prefix + "router", layer.router);
    add_vector(prefix + "router_bias", layer.router_bias);
    for (int e = 0; e < weights.config.num_experts; ++e) {
      const std::string expert = prefix + "expert " + std::to_string(e);
      add_matrix(expert + " gate_up", layer.gate_up.matrix(e));
      add_vector(expert + " gate_up_bias", layer.gate_up.bias(e));
      add_matrix(expert + " down", layer.down.matrix(e));
      add_vector(expert + " down_bias", layer.down.bias(e));
    }
  }
  return all;
}

}  // namespace nibble
