#include "model/checkpoint/write_gguf.h"

#include <algorithm>

#include "core/errors/error.h"
#include "core/numbers/bf16.h"
#include "formats/ggml_blocks.h"
#include "formats/gguf_writer.h"
#include "formats/mxfp4.h"
#include "model/checkpoint/gguf_config.h"
#include "model/checkpoint/gguf_model.h"
#include "model/checkpoint/gguf_tokenizer.h"

namespace nibble {
namespace {

// A tensor of the file, made from `spec`. Experts also need `scales`. Gate and up each take every second row.
struct Part {
  GgufEntry entry;
  TensorSpec spec;
  TensorSpec scales;
  uint64_t first_row{0}, row_step{1};
};

class Planner {
 public:
  Planner(const TensorSource& source, GgmlType dense) : source_(source), dense_(dense) {
    const std::vector<TensorSpec> specs = tensor_specs(source.config);
    for (size_t i = 0; i < specs.size(); ++i) {
      const TensorSpec& spec = specs[i];
      if (spec.kind == TensorKind::kScales) continue;  // written together with their codes
      const GgufName name = gguf_name(spec);
      Part part{{name.name, type_of(spec), spec.shape}, spec, specs[i], 0, 1};
      if (spec.kind == TensorKind::kCodes) {
        part.scales = specs[i + 1];
        part.entry.shape = {spec.shape[0], spec.shape[1], spec.shape[2] * kMxfp4BlockSize};
      }
      if (name.up.empty()) {
        parts_.push_back(std::move(part));
        continue;
      }
      part.row_step = 2;
      part.entry.shape[1] /= 2;
      parts_.push_back(part);
      part.entry.name = name.up;
      part.first_row = 1;
      parts_.push_back(std::move(part));
    }
  }
  std::vector<Part> take() { return std::move(parts_); }

 private:
  GgmlType type_of(const TensorSpec& spec) {
    if (spec.kind == TensorKind::kCodes) return GgmlType::kMxfp4;
    const bool is_router = spec.name.find(".router.") != std::string::npos;
    if (spec.kind != TensorKind::kDense || is_router) return GgmlType::kF32;
    if (dense_ != GgmlType::kBf16 && spec.shape[1] % block_elements(dense_) != 0)
      throw InputError("{}: {} has rows of {} elements, but {} needs whole blocks of {}", source_.name,
                       spec.name, spec.shape[1], name(dense_), block_elements(dense_));
    if (dense_ != GgmlType::kBf16) return dense_;
    return exact_dtype(source_, spec, room_) == DType::kBf16 ? GgmlType::kBf16 : GgmlType::kF32;
  }

  const TensorSource& source_;
  GgmlType dense_;
  Buffer room_;
  std::vector<Part> parts_;
};

float element(const StoredTensor& stored, size_t index) {
  return stored.dtype == DType::kF32 ? static_cast<const float*>(stored.data)[index]
                                     : to_float(static_cast<const Bf16*>(stored.data)[index]);
}

class Maker {  // encodes one tensor at a time; all cores share its rows
 public:
  Maker(const TensorSource& source, ThreadPool& pool) : source_(source), pool_(pool) {}

  std::span<const std::byte> make(const Part& part) {
    const size_t bytes = num_bytes(part.entry);
    if (made_.bytes() < bytes) made_ = Buffer(bytes);
    if (part.spec.kind == TensorKind::kCodes)
      make_experts(part);
    else
      make_plain(part);
    return {made_.data(), bytes};
  }

 private:
  void make_experts(const Part& part) {
    const auto* codes = static_cast<const uint8_t*>(source_.read(part.spec, room_).data);
    const auto* scales = static_cast<const uint8_t*>(source_.read(part.scales, scale_room_).data);
    const size_t blocks = part.spec.shape[2], row_bytes = blocks * block_bytes(GgmlType::kMxfp4);
    for_each_row(part, [&](size_t from, size_t to, std::span<float>) {
      pack_mxfp4({codes + from * blocks * kMxfp4CodeBytes, blocks * kMxfp4CodeBytes},
                 {scales + from * blocks, blocks}, {made_.data() + to * row_bytes, row_bytes});
    });
  }

  // Writes a vector. A vector is one row, except the bias of gate and up: there each element counts as a row,
  // because gate's and up's elements alternate and go to two tensors.
  void make_plain(const Part& part) {
    const StoredTensor stored = source_.read(part.spec, room_);
    const size_t count = *num_elements(part.entry.shape),
                 cols = part.row_step == 2 ? 1 : part.entry.shape.back(),
                 row_bytes = num_bytes(part.entry) / (count / cols);
    for_each_row(part, [&](size_t from, size_t to, std::span<float> values) {
      for (size_t i = 0; i < cols; ++i) values[i] = element(stored, from * cols + i);
      encode(part.entry.type, values.first(cols), {made_.data() + to * row_bytes, row_bytes});
    });
  }

  static void encode(GgmlType type, std::span<const float> values, std::span<std::byte> to) {
    if (type == GgmlType::kF32) {
      std::ranges::copy(std::as_bytes(values), to.begin());
    } else if (type == GgmlType::kBf16) {
      std::ranges::transform(values, reinterpret_cast<Bf16*>(to.data()), [](float x) { return to_bf16(x); });
    } else if (type == GgmlType::kQ8_0) {
      quantise_q8_0(values, to);
    } else {
      std::vector<uint8_t> codes(values.size() / 2), scales(values.size() / kMxfp4BlockSize);
      encode_mxfp4(values, codes, scales, Mxfp4Rule::kLlamaCpp);
      pack_mxfp4(codes, scales, to);
    }
  }

  // Calls body(index of a row in the source, its index in the file, space for one row of values).
  template <typename Body>
  void for_each_row(const Part& part, const Body& body) {
    const bool is_experts = part.spec.kind == TensorKind::kCodes;
    const size_t cols = part.row_step == 2 && !is_experts ? 1 : part.entry.shape.back(),
                 rows = *num_elements(part.entry.shape) / cols;
    std::vector<std::vector<float>> values(static_cast<size_t>(pool_.num_threads()),
                                           std::vector<float>(is_experts ? 0 : cols));
    pool_.for_each(static_cast<ptrdiff_t>(rows), [&](ptrdiff_t item, int thread) {
      const auto to = static_cast<size_t>(item);
      body(part.first_row + to * part.row_step, to, values[static_cast<size_t>(thread)]);
    });
  }

  const TensorSource& source_;
  ThreadPool& pool_;
  Buffer room_, scale_room_, made_;
};

void add_files(const TensorSource& source, const std::vector<TextFile>& files, GgufMetadata& metadata) {
  const auto vocabulary =
      std::ranges::find_if(files, [](const TextFile& file) { return file.name == "tokenizer.json"; });
  if (vocabulary == files.end())
    add_no_tokenizer(metadata);
  else
    add_tokenizer(vocabulary->text, source.name + ": tokenizer.json", source.config.vocab, metadata);
  for (const TextFile& file : files) {
    if (file.name == "tokenizer.json") continue;
    const bool is_template = file.name == "chat_template.jinja";
    metadata.add(is_template ? "tokenizer.chat_template" : gguf_key_of_file(file.name),
                 std::string_view(file.text));
  }
}

}  // namespace

std::string gguf_key_of_file(std::string_view name) { return "nibble.file." + std::string(name); }

void write_gguf(const TensorSource& source, const std::filesystem::path& file, const GgufOptions& options,
                ThreadPool& pool, const ReportProgress& report) {
  std::error_code error;
  if (std::filesystem::exists(file, error))
    throw InputError("{}: already exists; choose a new name", file.string());
  GgufMetadata metadata;
  add_config(source.config, source.name, metadata);
  add_files(source, options.files, metadata);
  metadata.add("general.file_type", uint32_t{38});  // llama.cpp's LLAMA_FTYPE_MOSTLY_MXFP4_MOE

  const std::vector<Part> parts = Planner(source, options.dense).take();
  std::vector<GgufEntry> entries;
  size_t total = 0, done = 0;
  for (const Part& part : parts) {
    entries.push_back(part.entry);
    total += num_bytes(part.entry);
  }
  GgufWriter writer(file, metadata, std::move(entries));
  Maker maker(source, pool);
  for (const Part& part : parts) {
    const auto bytes = maker.make(part);
    writer.append(bytes);
    done += bytes.size();
    if (report) report(done, total);
  }
  writer.finish();
}

}  // namespace nibble
