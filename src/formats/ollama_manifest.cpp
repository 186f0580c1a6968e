#include "formats/ollama_manifest.h"

#include <algorithm>

#include "formats/container_error.h"
#include "formats/untrusted_json.h"

namespace nibble {
namespace {

using Fault = ContainerFault;

constexpr size_t kManifestDepth{16};
constexpr std::string_view kModelLayer{"application/vnd.ollama.image.model"},
    kAdapterLayer{"application/vnd.ollama.image.adapter"};

// Turns "sha256:abc..." into "sha256-abc...". Refuses other text: it could be a path out of the store.
std::string blob_name(std::string_view digest, const std::filesystem::path& path) {
  constexpr std::string_view kPrefix{"sha256:"};
  const bool is_digest = digest.starts_with(kPrefix) && digest.size() == kPrefix.size() + 64 &&
                         std::ranges::all_of(digest.substr(kPrefix.size()), [](char c) {
                           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
                         });
  if (!is_digest) throw ContainerError(Fault::kBadIndex, path, "{} is not a digest", in_quotes(digest));
  return "sha256-" + std::string(digest.substr(kPrefix.size()));
}

}  // namespace

std::string ollama_model_blob(std::string_view manifest, const std::filesystem::path& path) {
  simdjson::dom::parser parser;
  const simdjson::dom::element root = parse_untrusted_json(parser, manifest, kManifestDepth, path);
  simdjson::dom::array layers;
  if (!root.is_object() || root["layers"].get(layers))
    throw ContainerError(Fault::kBadIndex, path, "it has no list of layers");
  std::string blob;
  for (const simdjson::dom::element layer : layers) {
    std::string_view type, digest;
    if (!layer.is_object() || layer["mediaType"].get(type) || layer["digest"].get(digest))
      throw ContainerError(Fault::kBadIndex, path, "a layer has no media type or no digest");
    if (type == kAdapterLayer)
      throw ContainerError(Fault::kBadIndex, path, "the model has an adapter, which nibble does not apply");
    if (type != kModelLayer) continue;
    if (!blob.empty()) throw ContainerError(Fault::kBadIndex, path, "its weights are in several files");
    blob = blob_name(digest, path);
  }
  if (blob.empty()) throw ContainerError(Fault::kBadIndex, path, "it names no weights");
  return blob;
}

}  // namespace nibble
