#include "formats/open_container.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/errors/check.h"
#include "core/files/mapped_file.h"
#include "core/program/log.h"
#include "formats/container_error.h"
#include "formats/safetensors.h"
#include "formats/safetensors_index.h"

namespace nibble {
namespace {

using Fault = ContainerFault;
namespace fs = std::filesystem;

// The limit of a header suffices for an index, which lists only the name and the file of each tensor.
constexpr size_t kMaxIndexBytes{kMaxSafetensorsHeaderBytes};

std::string_view first_text(std::span<const std::byte> bytes, size_t max_bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), max_bytes)};
}

// safetensors has no magic number. A file begins with a u64 length below 2^56 (so byte 7 is 0) and a brace.
bool is_safetensors(std::span<const std::byte> bytes) {
  return bytes.size() > 8 && bytes[7] == std::byte{0} && bytes[8] == std::byte{'{'};
}

bool is_gguf(std::span<const std::byte> bytes) { return first_text(bytes, 4) == "GGUF"; }

Container refuse_gguf(MappedFile file) {
  throw ContainerError(Fault::kGguf, file.path(), "it begins with GGUF");
}

bool is_text(std::span<const std::byte> bytes) {
  constexpr size_t kLooksAt{64};
  return !bytes.empty() && std::ranges::none_of(first_text(bytes, kLooksAt), [](char c) {
    return static_cast<unsigned char>(c) < ' ' && c != '\n' && c != '\r' && c != '\t';
  });
}

Container refuse_text(MappedFile file) {
  throw ContainerError(
      Fault::kNotTensors, file.path(),
      "it is text that begins with {}: perhaps the error page of a failed download, or a Git LFS pointer",
      in_quotes(first_text(file.bytes(), 40)));
}

bool is_anything(std::span<const std::byte>) { return true; }

Container refuse(MappedFile file) {
  throw ContainerError(Fault::kNotTensors, file.path(), "it has {} bytes and begins with {}",
                       file.bytes().size(), in_quotes(first_text(file.bytes(), 16)));
}

struct OpenerRow {  // the first row that recognises a file either opens or refuses it
  bool (*recognises)(std::span<const std::byte> bytes);
  Container (*open)(MappedFile file);
};
constexpr OpenerRow kOpeners[] = {
    {&is_safetensors, &open_safetensors},
    {&is_gguf, &refuse_gguf},
    {&is_text, &refuse_text},
    {&is_anything, &refuse},
};

// Merges several files into one container. With an index, takes each tensor of the index from the file that
// the index states. Without an index, takes all tensors; then no name may occur twice.
class Merger {
 public:
  Merger(const SafetensorsIndex* index, FileAccess access) : index_(index), access_(access) {}

  void add(const fs::path& file) {
    Container part = open_container(file, access_);
    const size_t file_index = whole_.files.size();
    whole_.files.push_back(file);
    for (Tensor& tensor : part.tensors) {
      if (index_ && !is_indexed(tensor.name, file_index)) {
        ++num_left_out_;
        continue;
      }
      const auto [place, is_new] = files_.try_emplace(tensor.name, file_index);
      if (!is_new)
        throw ContainerError(Fault::kDuplicateName, file, "{} is also in {}", in_quotes(tensor.name),
                             whole_.files[place->second].string());
      tensor.file_index = file_index;
      whole_.tensors.push_back(std::move(tensor));
    }
    std::ranges::move(part.mapped, std::back_inserter(whole_.mapped));
    storages_.push_back(std::move(part.storage));
  }

  Container finish(const fs::path& folder) {
    if (index_) check_complete();
    if (num_left_out_ > 0)
      log::warn("{}: ignored {} tensors that the index does not assign to their file", folder.string(),
                num_left_out_);
    whole_.storage = std::make_shared<std::vector<std::shared_ptr<const void>>>(std::move(storages_));
    whole_.index();
    return std::move(whole_);
  }

 private:
  bool is_indexed(const std::string& name, size_t file_index) const {
    const auto place = index_->file_index.find(name);
    return place != index_->file_index.end() && place->second == file_index;
  }

  void check_complete() const {
    if (whole_.tensors.size() == index_->file_index.size()) return;
    for (const auto& [name, file_index] : index_->file_index)
      if (!files_.contains(name))
        throw ContainerError(Fault::kMissingTensor, whole_.files[file_index],
                             "the index says that {} is in this file, but it is not", in_quotes(name));
  }

  const SafetensorsIndex* index_;
  FileAccess access_;
  Container whole_;
  std::unordered_map<std::string, size_t> files_;  // tensor name -> index of the file that holds it
  std::vector<std::shared_ptr<const void>> storages_;
  size_t num_left_out_{0};
};

Container open_indexed(const SafetensorsIndex& index, const fs::path& index_path, FileAccess access) {
  const fs::path folder = index_path.parent_path();
  Merger merger(&index, access);
  for (const std::string& file : index.files) {
    if (!fs::exists(folder / file))
      throw ContainerError(Fault::kMissingFile, index_path, "{} is not in the same folder", in_quotes(file));
    merger.add(folder / file);
  }
  return merger.finish(folder);
}

Container open_all(const fs::path& folder, FileAccess access) {
  std::vector<fs::path> files;
  bool has_gguf = false, has_pickles = false;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
    has_gguf |= entry.path().extension() == ".gguf";
    has_pickles |= entry.path().extension() == ".bin" || entry.path().extension() == ".pth";
  }
  if (error) throw InputError("{}: cannot read the folder: {}", folder.string(), error.message());
  if (files.empty() && has_gguf) throw ContainerError(Fault::kGguf, folder, "it has no safetensors file");
  if (files.empty())
    throw ContainerError(
        Fault::kEmptyFolder, folder, "the folder has no safetensors file{}",
        has_pickles ? ", only Python pickles (.bin or .pth), which nibble does not read" : "");
  std::ranges::sort(files);
  Merger merger(nullptr, access);
  for (const fs::path& file : files) merger.add(file);
  return merger.finish(folder);
}

// Opens the files of the index. If model.safetensors is there too and is not one of them, one of the two is
// left over from an earlier save: transformers then reads model.safetensors, and vLLM the files of the index.
Container open_indexed_or_single(const fs::path& index_path, const fs::path& single, FileAccess access) {
  const SafetensorsIndex index =
      parse_safetensors_index(read_text_file(index_path, kMaxIndexBytes), index_path);
  const fs::path folder = index_path.parent_path();
  const bool names_single = std::ranges::find(index.files, single.filename().string()) != index.files.end();
  if (names_single || !fs::exists(single)) return open_indexed(index, index_path, access);
  if (std::ranges::none_of(index.files, [&](const std::string& file) { return fs::exists(folder / file); })) {
    log::warn("{}: ignored: none of the files that it names is there, and {} is", index_path.string(),
              single.filename().string());
    return open_container(single, access);
  }
  throw InputError(
      "{}: has {} and also the files of {}, so it is not clear which of them is the model: remove those that "
      "are left over from an earlier save",
      folder.string(), single.filename().string(), index_path.filename().string());
}

}  // namespace

Container open_container(const fs::path& path, FileAccess access) {
  MappedFile file(path, access);
  for (const OpenerRow& row : kOpeners)
    if (row.recognises(file.bytes())) return row.open(std::move(file));
  NIBBLE_CHECK(false, "the last row must accept every file");
}

Container open_container_folder(const fs::path& folder, FileAccess access) {
  if (!fs::is_directory(folder))
    throw InputError("{}: not a folder. Give the folder of a checkpoint", folder.string());
  const fs::path index = folder / "model.safetensors.index.json", single = folder / "model.safetensors";
  if (fs::exists(index)) return open_indexed_or_single(index, single, access);
  return fs::exists(single) ? open_container(single, access) : open_all(folder, access);
}

}  // namespace nibble
