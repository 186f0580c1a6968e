#include "model/checkpoint/gguf_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "core/numbers/random.h"
#include "formats/ggml_blocks.h"
#include "formats/gguf_writer.h"
#include "formats/mxfp4.h"
#include "model/checkpoint/gguf_config.h"
#include "model/checkpoint/gguf_tokenizer.h"
#include "model/checkpoint/synthetic.h"
#include "model/checkpoint/write_checkpoint.h"
#include "model/checkpoint/write_gguf.h"
#include "model/convert_blocks.h"
#include "tests/error_of.h"
#include "tests/folders.h"
#include "tests/model/small_model.h"

namespace nibble {
namespace {

using testing::HasSubstr;

const std::string kTinyFolder = test::source_path("models/tiny-gpt-oss");

// Opens the weights of a file, all converted to elements.
Weights open_converted(const std::filesystem::path& file) {
  ThreadPool pool(3);
  return *with_elements(std::make_shared<const Weights>(open_weights(file)), false, pool);
}

void write(const TensorSource& source, const std::filesystem::path& file, const GgufOptions& options = {}) {
  ThreadPool pool(2);
  write_gguf(source, file, options, pool);
}

// Converts F32 tensors to BF16, to compare them: tensors stored as F32 stay F32 in memory, with the values of
// the checkpoint's BF16.
std::map<std::string, std::string> in_bf16(std::map<std::string, std::string> all,
                                           const std::map<std::string, std::string>& like) {
  for (auto& [name, bytes] : all) {
    if (bytes.size() != 2 * like.at(name).size()) continue;
    std::string narrow;
    for (size_t at = 0; at < bytes.size(); at += 4) {
      EXPECT_EQ(bytes.substr(at, 2), std::string(2, '\0')) << name;  // the lower half of a BF16 value is zero
      narrow += bytes.substr(at + 2, 2);
    }
    bytes = narrow;
  }
  return all;
}

TEST(GgufModel, TheBundledModelIsTheSameFromEitherFile) {
  const TestFolder folder;
  write(open_source(kTinyFolder), folder.path() / "tiny.gguf");
  const Weights from_gguf = open_converted(folder.path() / "tiny.gguf"), weights = open_weights(kTinyFolder);
  EXPECT_EQ(to_json(from_gguf.config), to_json(weights.config));
  const auto expected = bytes_of(weights);
  EXPECT_EQ(in_bf16(bytes_of(from_gguf), expected), expected);
}

TEST(GgufModel, AFolderAgainHoldsTheSameBytes) {
  const TestFolder folder;
  write(open_source(kTinyFolder), folder.path() / "tiny.gguf");
  write_checkpoint(open_source(folder.path() / "tiny.gguf"), folder.path() / "again");
  const OwnedTensors again = read_tensors(folder.path() / "again"), tensors = read_tensors(kTinyFolder);
  ASSERT_EQ(again.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(again.at(name).dtype, tensor.dtype) << name;
    EXPECT_EQ(again.at(name).shape, tensor.shape) << name;
    EXPECT_TRUE(again.at(name).bytes == tensor.bytes) << name;
  }
}

TEST(GgufModel, AModelOfOtherShapesAndLayersIsTheSame) {
  const TestFolder folder;
  const TensorSource source = synthetic_source(small_config(), "synthetic", 4);
  write_checkpoint(source, folder.path() / "model");
  write(source, folder.path() / "model.gguf");
  const Weights from_gguf = open_converted(folder.path() / "model.gguf");
  EXPECT_EQ(from_gguf.config, small_config());
  const Weights weights = open_weights(folder.path() / "model");
  const auto expected = bytes_of(weights);
  EXPECT_EQ(in_bf16(bytes_of(from_gguf), expected), expected);
}

TEST(GgufModel, BlocksAreConvertedOnceAndReported) {
  const TestFolder folder;
  write(synthetic_source(small_config(), "synthetic"), folder.path() / "model.gguf");
  auto weights = std::make_shared<const Weights>(open_weights(folder.path() / "model.gguf"));
  ASSERT_TRUE(has_blocks(*weights));
  ThreadPool pool(1);
  size_t num_reports = 0, last = 0, total = 0;
  const auto report = [&](size_t done, size_t all) { ++num_reports, last = done, total = all; };
  const auto converted = with_elements(weights, false, pool, report);
  EXPECT_GT(num_reports, 0u);
  EXPECT_EQ(last, total);
  EXPECT_FALSE(has_blocks(*converted));
  num_reports = 0;
  EXPECT_EQ(with_elements(converted, false, pool, report), converted);
  EXPECT_EQ(num_reports, 0u);
}

// Compares experts and dense matrices row by row. For a backend that reads ggml blocks, only the router is
// converted.
TEST(GgufModel, BlocksHaveTheValuesOfConvertedElements) {
  const TestFolder folder;
  const auto file = folder.path() / "model.gguf";
  write(synthetic_source(small_config(), "synthetic"), file, {.dense = GgmlType::kMxfp4});
  ThreadPool pool(2);
  size_t rest = 0;
  const auto weights = with_elements(std::make_shared<const Weights>(open_weights(file)), true, pool,
                                     [&](size_t done, size_t) { rest = done; });
  const Weights converted = open_converted(file);
  size_t router_bytes = 0;
  for (const LayerWeights& layer : converted.layers)
    router_bytes += num_bytes(Format::kBf16, size_t{1} * layer.router.rows * layer.router.cols);
  EXPECT_EQ(rest, router_bytes);
  const auto expect_same = [](const Matrix& matrix, const Matrix& same) {
    ASSERT_TRUE(matrix.blocks());
    EXPECT_EQ(matrix.format(), Format::kMxfp4);
    const Elements& elements = same.elements();
    const auto cols = static_cast<size_t>(matrix.cols);
    std::vector<float> values(cols), made(cols);
    for (int r = 0; r < matrix.rows; ++r) {
      dequantise(matrix.blocks()->type, row_of(*matrix.blocks(), static_cast<size_t>(r), cols), values);
      const size_t first = static_cast<size_t>(r) * cols;
      if (elements.format == Format::kMxfp4)
        decode_mxfp4({static_cast<const uint8_t*>(elements.data) + first / 2, cols / 2},
                     {elements.scales + first / 32, cols / 32}, made);
      else
        for (size_t c = 0; c < cols; ++c)
          made[c] = to_float(static_cast<const Bf16*>(elements.data)[first + c]);
      ASSERT_EQ(values, made) << r;
    }
  };
  expect_same(weights->embedding, converted.embedding);
  expect_same(weights->unembedding, converted.unembedding);
  for (size_t n = 0; n < converted.layers.size(); ++n) {
    const LayerWeights &layer = weights->layers[n], &same = converted.layers[n];
    for (Matrix LayerWeights::*matrix :
         {&LayerWeights::q, &LayerWeights::k, &LayerWeights::v, &LayerWeights::o})
      expect_same(layer.*matrix, same.*matrix);
    for (int e = 0; e < converted.config.num_experts; ++e) {
      expect_same(layer.gate_up.matrix(e), same.gate_up.matrix(e));
      expect_same(layer.down.matrix(e), same.down.matrix(e));
    }
  }
}

// Rows 2i and 2i + 1 of gate_up are row i of gate and row i of up. ggml_blocks_test.cpp tests the order of
// the 4-bit codes in a block.
TEST(GgufModel, GateAndUpAreEverySecondRow) {
  const TestFolder folder;
  write(synthetic_source(small_config(), "synthetic"), folder.path() / "model.gguf");
  const Weights weights = open_converted(folder.path() / "model.gguf");
  const Gguf gguf = open_gguf(folder.path() / "model.gguf");
  const GgufTensor &gate = *gguf.find("blk.1.ffn_gate_exps.weight"),
                   &up = *gguf.find("blk.1.ffn_up_exps.weight");
  const int expert = 3, row = 17;  // one of the 96 rows of each half
  const size_t blocks = 64 / 32, row_bytes = blocks * 17;
  const Matrix matrix = weights.layers[1].gate_up.matrix(expert);
  for (const int is_up : {0, 1}) {
    const auto stored = (is_up ? up : gate).data.subspan((expert * 96 + row) * row_bytes, row_bytes);
    std::vector<uint8_t> codes(blocks * 16), scales(blocks);
    unpack_mxfp4(stored, codes, scales);
    const size_t to_row = static_cast<size_t>(2 * row + is_up);
    EXPECT_EQ(std::memcmp(static_cast<const uint8_t*>(matrix.elements().data) + to_row * codes.size(),
                          codes.data(), codes.size()),
              0);
    EXPECT_EQ(std::memcmp(matrix.elements().scales + to_row * scales.size(), scales.data(), scales.size()),
              0);
    const GgufTensor& bias = *gguf.find(is_up ? "blk.1.ffn_up_exps.bias" : "blk.1.ffn_gate_exps.bias");
    EXPECT_EQ(weights.layers[1].gate_up.bias(expert)[2 * row + is_up],
              reinterpret_cast<const float*>(bias.data.data())[expert * 96 + row]);
  }
}

TEST(GgufModel, Q8AndMxfp4MatricesAreTheirValuesInBf16) {
  const TestFolder folder;
  for (const GgmlType type : {GgmlType::kQ8_0, GgmlType::kMxfp4}) {
    const auto file = folder.path() / (std::string(name(type)) + ".gguf");
    write(synthetic_source(small_config(), "synthetic"), file, {.dense = type});
    const Weights weights = open_converted(file);
    const Gguf gguf = open_gguf(file);
    const GgufTensor& stored = *gguf.find("blk.2.attn_output.weight");
    EXPECT_EQ(stored.type, type);
    std::vector<float> values(64 * 96);
    dequantise(type, stored.data, values);
    const Matrix& o = weights.layers[2].o;
    ASSERT_EQ(o.format(), Format::kBf16);
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(static_cast<const Bf16*>(o.elements().data)[i], to_bf16(values[i])) << i;
    EXPECT_EQ(gguf.find("blk.2.ffn_gate_inp.weight")->type, GgmlType::kF32);
  }
}

// A GGUF file of the small model. Tests damage the file and then open it.
class DamagedGguf : public testing::Test {
 protected:
  DamagedGguf() {
    write(synthetic_source(small_config(), "synthetic"), folder_.path() / "good.gguf");
    const Gguf good = open_gguf(folder_.path() / "good.gguf");
    for (const GgufTensor& tensor : good.tensors)
      tensors_.push_back(
          {{tensor.name, tensor.type, tensor.shape}, {tensor.data.begin(), tensor.data.end()}});
    add_config(small_config(), "small", metadata_);
  }
  struct Owned {
    GgufEntry entry;
    std::vector<std::byte> bytes;
  };
  Owned& tensor(std::string_view name) {
    return *std::ranges::find_if(tensors_, [&](const Owned& owned) { return owned.entry.name == name; });
  }
  void set_type(std::string_view name, GgmlType type) {
    tensor(name).entry.type = type;
    tensor(name).bytes.assign(num_bytes(tensor(name).entry), std::byte{0});
  }
  std::string error_of_opening() {
    const auto file = folder_.path() / "damaged.gguf";
    std::vector<GgufEntry> entries;
    for (const Owned& owned : tensors_) entries.push_back(owned.entry);
    GgufWriter writer(file, metadata_, entries);
    for (const Owned& owned : tensors_) writer.append(owned.bytes);
    writer.finish();
    const std::string error = error_of([&] { open_weights(file); });
    EXPECT_EQ(error.find('\n'), std::string::npos);
    if (error != "accepted") {
      EXPECT_THAT(error, HasSubstr("damaged.gguf"));
    }
    return error;
  }

  TestFolder folder_;
  GgufMetadata metadata_;
  std::vector<Owned> tensors_;
};

TEST_F(DamagedGguf, UndamagedItIsAccepted) { EXPECT_EQ(error_of_opening(), "accepted"); }

TEST_F(DamagedGguf, TensorsThatAreMissingOrTooManyAreNamed) {
  Owned more = tensor("output_norm.weight");
  more.entry.name = "blk.7.attn_norm.weight";
  tensors_.push_back(more);
  EXPECT_THAT(error_of_opening(), HasSubstr("unexpected tensor 'blk.7.attn_norm.weight'"));
  tensors_.pop_back();
  std::erase_if(tensors_, [](const Owned& owned) { return owned.entry.name == "blk.1.attn_sinks.weight"; });
  EXPECT_THAT(error_of_opening(), HasSubstr("'blk.1.attn_sinks.weight' is missing"));
}

TEST_F(DamagedGguf, AShapeThatTheMetadataDoNotGiveIsRefused) {
  Owned& q = tensor("blk.0.attn_q.weight");
  std::swap(q.entry.shape[0], q.entry.shape[1]);
  EXPECT_THAT(error_of_opening(),
              HasSubstr("'blk.0.attn_q.weight' is BF16 [64, 96]; the metadata require [96, 64]"));
}

TEST_F(DamagedGguf, ExpertsMayHaveOtherTypesButAreNotRoundedUnasked) {
  set_type("blk.2.ffn_up_exps.weight", GgmlType::kQ4_0);
  std::ranges::fill(tensor("blk.2.ffn_up_exps.weight").bytes, std::byte{0x35});  // -3 and -5 times a scale
  EXPECT_EQ(error_of_opening(), "accepted");
  const std::filesystem::path file = folder_.path() / "damaged.gguf";
  const Weights weights = open_weights(file);
  EXPECT_EQ(stored_name(weights.layers[2].gate_up.first), "MXFP4 and Q4_0");
  EXPECT_EQ(stored_name(weights.layers[2].down.first), "MXFP4");
  EXPECT_THAT(error_of([&] { open_source(file); }),
              HasSubstr("the experts are MXFP4 and Q4_0 and not exactly"));
}

TEST_F(DamagedGguf, AVectorInBlocksIsRefused) {
  set_type("output_norm.weight", GgmlType::kQ8_0);
  EXPECT_THAT(error_of_opening(),
              HasSubstr("'output_norm.weight' is Q8_0; norms, biases and sinks must be F32, F16 or BF16"));
}

TEST_F(DamagedGguf, MatricesOfEveryTypeAreAccepted) {
  for (const GgmlType type : {GgmlType::kF32, GgmlType::kF16, GgmlType::kQ4_0, GgmlType::kQ4_1,
                              GgmlType::kQ5_0, GgmlType::kQ5_1, GgmlType::kQ8_0, GgmlType::kMxfp4}) {
    set_type("blk.0.attn_k.weight", type);
    EXPECT_EQ(error_of_opening(), "accepted") << name(type);
  }
}

// Some converters write the rows of q, k and v into one tensor, which must give the same weights.
TEST_F(DamagedGguf, FusedQkvAreTheSameWeights) {
  const Weights separate = open_converted(folder_.path() / "good.gguf");
  for (const std::string kind : {"weight", "bias"})
    for (const std::string layer : {"0", "1", "2"}) {
      Owned& q = tensor("blk." + layer + ".attn_q." + kind);
      for (const std::string part : {"k", "v"}) {
        const Owned& other = tensor("blk." + layer + ".attn_" + part + "." + kind);
        q.entry.shape[0] += other.entry.shape[0];
        q.bytes.insert(q.bytes.end(), other.bytes.begin(), other.bytes.end());
      }
      q.entry.name = "blk." + layer + ".attn_qkv." + kind;
    }
  std::erase_if(tensors_, [](const Owned& owned) {
    return owned.entry.name.find("attn_k.") != std::string::npos ||
           owned.entry.name.find("attn_v.") != std::string::npos;
  });
  ASSERT_EQ(error_of_opening(), "accepted");
  const Weights fused = open_converted(folder_.path() / "damaged.gguf");
  EXPECT_EQ(bytes_of(fused), bytes_of(separate));
}

// Writes the small model as Ollama's converters do. `is_old`: gate and up in one tensor, MXFP4 as type 4.
class OllamaGguf : public DamagedGguf {
 protected:
  void make(bool is_old) {
    metadata_ = GgufMetadata();
    const Config c = small_config();
    metadata_.add("general.architecture", std::string_view("gptoss"));
    const std::pair<std::string_view, int> sizes[] = {
        {"block_count", c.num_layers},          {"context_length", c.max_context},
        {"embedding_length", c.hidden},         {"feed_forward_length", c.intermediate},
        {"expert_count", c.num_experts},        {"expert_used_count", c.experts_per_token},
        {"attention.head_count", c.num_heads},  {"attention.head_count_kv", c.num_kv_heads},
        {"attention.key_length", c.head_dim},   {"attention.value_length", c.head_dim},
        {"attention.sliding_window", c.window}, {"rope.scaling.original_context_length", 4096}};
    for (const auto& [key, value] : sizes)
      metadata_.add("gptoss." + std::string(key), static_cast<uint32_t>(value));
    metadata_.add("gptoss.attention.layer_norm_rms_epsilon", c.rms_eps);
    metadata_.add("gptoss.rope.freq_base", static_cast<float>(c.rope.theta));
    metadata_.add("gptoss.rope.scaling.factor", static_cast<float>(c.rope.factor));
    metadata_.add_booleans("gptoss.attention.sliding_window_pattern", {0, 1, 0});
    for (Owned& owned : tensors_) rename(owned.entry.name);
    if (is_old) fuse();
  }

 private:
  static void rename(std::string& name) {
    for (const auto& [from, to] : {std::pair<std::string, std::string>{".attn_sinks.weight", ".attn_sinks"},
                                   {".attn_output.", ".attn_out."},
                                   {".post_attention_norm.", ".ffn_norm."}})
      if (const size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
  }
  void fuse() {
    for (Owned& owned : tensors_) {
      if (owned.entry.type != GgmlType::kMxfp4) continue;
      std::vector<uint8_t> codes(owned.bytes.size() / 17 * 16), scales(owned.bytes.size() / 17);
      unpack_mxfp4(owned.bytes, codes, scales);
      for (size_t i = 0; i < scales.size(); ++i) {
        owned.bytes[i * 17] = std::byte{scales[i]};
        std::memcpy(owned.bytes.data() + i * 17 + 1, codes.data() + i * 16, 16);
      }
      owned.entry.type = GgmlType::kMxfp4Ollama;
    }
    for (const std::string kind : {"weight", "bias"})
      for (const std::string layer : {"0", "1", "2"}) {
        Owned& gate = tensor("blk." + layer + ".ffn_gate_exps." + kind);
        const Owned up = tensor("blk." + layer + ".ffn_up_exps." + kind);
        const size_t rows = gate.entry.shape[0] * gate.entry.shape[1], row = gate.bytes.size() / rows;
        std::vector<std::byte> both;
        for (size_t i = 0; i < rows; ++i)
          for (const Owned* from : {static_cast<const Owned*>(&gate), &up})
            both.insert(both.end(), from->bytes.begin() + static_cast<ptrdiff_t>(i * row),
                        from->bytes.begin() + static_cast<ptrdiff_t>((i + 1) * row));
        gate.bytes = both;
        gate.entry.shape[1] *= 2;
        gate.entry.name = "blk." + layer + ".ffn_gate_up_exps." + kind;
      }
    std::erase_if(tensors_, [](const Owned& owned) {
      return owned.entry.name.find("ffn_up_exps") != std::string::npos;
    });
  }
};

TEST_F(OllamaGguf, IsTheSameModelInBothOfItsLayouts) {
  const Weights good = open_converted(folder_.path() / "good.gguf");
  for (const bool is_old : {false, true}) {
    make(is_old);
    ASSERT_EQ(error_of_opening(), "accepted");
    const Weights weights = open_converted(folder_.path() / "damaged.gguf");
    Config expected = small_config();
    expected.eos.clear();  // the metadata written above have no end tokens
    EXPECT_EQ(weights.config, expected);
    EXPECT_EQ(bytes_of(weights), bytes_of(good));
  }
}

TEST_F(OllamaGguf, KeysOfTheOtherPrefixAreRefused) {
  make(false);
  metadata_.add("gpt-oss.rope.scaling.factor", 2.0f);
  EXPECT_THAT(error_of_opening(), HasSubstr("unknown metadata key \"gpt-oss.rope.scaling.factor\""));
}

TEST_F(DamagedGguf, KeysThatMayChangeTheModelAreRefused) {
  metadata_.add("gpt-oss.rope.scaling.attn_factor", 2.0f);
  EXPECT_THAT(error_of_opening(), HasSubstr("unknown metadata key \"gpt-oss.rope.scaling.attn_factor\""));
}

TEST_F(DamagedGguf, AKeyThatContradictsAnotherIsRefused) {
  metadata_.add("gpt-oss.rope.freq_base_swa", 10000.0f);
  EXPECT_THAT(error_of_opening(), HasSubstr("freq_base_swa' is 10000; expected 150000"));
}

// Writes the metadata of the small model with one change, and an embedding for its vocabulary. Returns the
// error of opening the file.
std::string error_of_config(const std::function<void(GgufMetadata&)>& add, Config config = small_config()) {
  const TestFolder folder;
  GgufMetadata metadata;
  add_config(config, "small", metadata);
  add(metadata);
  GgufWriter writer(folder.path() / "x.gguf", metadata, {{"token_embd.weight", GgmlType::kF32, {99, 1}}});
  writer.append(std::vector<std::byte>(99 * 4));
  writer.finish();
  return error_of([&] { gguf_config(open_gguf(folder.path() / "x.gguf")); });
}

TEST(GgufConfig, ValuesAreCheckedAsThoseOfAConfigJson) {
  EXPECT_EQ(error_of_config([](GgufMetadata&) {}), "accepted");
  Config config = small_config();
  config.num_experts = 0;
  EXPECT_THAT(error_of_config([](GgufMetadata&) {}, config), HasSubstr("'num_local_experts' is 0"));
  config = small_config();
  config.rms_eps = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(error_of_config([](GgufMetadata&) {}, config),
              HasSubstr("layer_norm_rms_epsilon' is not a finite number"));
  config = small_config();
  config.eos = {99};
  EXPECT_THAT(error_of_config([](GgufMetadata&) {}, config), HasSubstr("eos_token_id"));
  config = small_config();
  config.vocab = 98;
  EXPECT_THAT(error_of_config([](GgufMetadata&) {}, config), HasSubstr("vocab_size' is 98; expected 99"));
}

// Reads the configuration of the small model from metadata that lack some keys.
Config config_without(std::initializer_list<std::string_view> left_out) {
  const TestFolder folder;
  GgufMetadata metadata;
  add_config(small_config(), "small", metadata);
  GgufWriter writer(folder.path() / "x.gguf", metadata, {{"token_embd.weight", GgmlType::kF32, {99, 1}}});
  writer.append(std::vector<std::byte>(99 * 4));
  writer.finish();
  Gguf gguf = open_gguf(folder.path() / "x.gguf");
  for (const std::string_view key : left_out)
    EXPECT_EQ(gguf.metadata.erase("gpt-oss." + std::string(key)), 1u) << key;
  return gguf_config(gguf);
}

TEST(GgufConfig, AnAbsentKeyThatChangesTheResultIsRefused) {
  for (const std::string_view key :
       {"rope.scaling.type", "rope.scaling.factor", "rope.scaling.original_context_length", "rope.freq_base",
        "attention.sliding_window", "attention.layer_norm_rms_epsilon", "attention.head_count",
        "attention.head_count_kv", "attention.key_length", "expert_count", "expert_used_count",
        "expert_feed_forward_length", "embedding_length", "block_count"})
    EXPECT_THAT(error_of([&] { config_without({key}); }),
                HasSubstr(fmt::format("metadata 'gpt-oss.{}' is missing", key)));
}

TEST(GgufConfig, KeysThatConvertersDidNotWriteMayBeAbsent) {
  Config expected = small_config();
  expected.rope.beta_fast = 32;
  expected.rope.beta_slow = 1;
  EXPECT_EQ(config_without({"rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow"}), expected);
}

TEST(GgufConfig, PlainRopeMustNotHaveAFactor) {
  Config plain = small_config();
  plain.rope.factor = 1;
  EXPECT_EQ(error_of_config([](GgufMetadata&) {}, plain), "accepted");
  EXPECT_THAT(error_of_config([](GgufMetadata& m) { m.add("gpt-oss.rope.scaling.factor", 32.0f); }, plain),
              HasSubstr("factor' is 32, but rope.scaling.type is none"));
}

TEST(GgufConfig, AnotherArchitectureIsNamed) {
  const TestFolder folder;
  GgufMetadata metadata;
  metadata.add("general.architecture", std::string_view("llama"));
  GgufWriter(folder.path() / "x.gguf", metadata, {}).finish();
  EXPECT_THAT(error_of([&] { open_weights(folder.path() / "x.gguf"); }),
              HasSubstr("is \"llama\"; expected \"gpt-oss\""));
}

TEST(GgufConfig, WhatGgufHasNoWordForIsRefused) {
  GgufMetadata metadata;
  Config config = small_config();
  config.swiglu_limit = 5;
  EXPECT_THAT(error_of([&] { add_config(config, "small", metadata); }), HasSubstr("SwiGLU limit is 5"));
  config = small_config();
  config.rope.truncate = true;
  EXPECT_THAT(error_of([&] { add_config(config, "small", metadata); }), HasSubstr("truncation"));
}

TEST(WriteGguf, AFileThatIsThereIsLeftAlone) {
  const TestFolder folder;
  write_text(folder.path() / "x.gguf", "precious");
  EXPECT_THAT(error_of([&] { write(synthetic_source(small_config(), "s"), folder.path() / "x.gguf"); }),
              HasSubstr("exists"));
}

}  // namespace
}  // namespace nibble
