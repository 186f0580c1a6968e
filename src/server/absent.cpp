#include "server/absent.h"

#include <algorithm>

namespace nibble::server {
namespace {

constexpr std::string_view kNoVectors{"gpt-oss has no embeddings; use an embedding model on another server"};
constexpr std::string_view kNoRanking{
    "gpt-oss does not rank or score texts; use a reranking model on another server"};
constexpr std::string_view kNoMedia{"gpt-oss reads and writes text only"};
constexpr std::string_view kNoStore{
    "nibble does not store files, batches or conversations; send requests one by one"};
constexpr std::string_view kNoTraining{"nibble serves a model, but does not train or evaluate models"};
constexpr std::string_view kOneModel{"nibble serves only the model that it was started with"};
constexpr std::string_view kAdaptersAtStart{
    "LoRA adapters are loaded when nibble starts: --lora-modules NAME=FILE, or --lora FILE"};
constexpr std::string_view kOtherApi{
    "this API belongs to another server; use /v1/completions or /v1/chat/completions"};

constexpr AbsentEndpoint kAbsent[] = {
    {"/v1/embeddings", kNoVectors},
    {"/embedding", kNoVectors},
    {"/embeddings", kNoVectors},
    {"/pooling", kNoVectors},
    {"/v1/rerank", kNoRanking},
    {"/v2/rerank", kNoRanking},
    {"/rerank", kNoRanking},
    {"/v1/reranking", kNoRanking},
    {"/reranking", kNoRanking},
    {"/v1/score", kNoRanking},
    {"/score", kNoRanking},
    {"/classify", kNoRanking},
    {"/v1/moderations", "nibble has no moderation model"},
    {"/v1/audio", kNoMedia},
    {"/v1/images", kNoMedia},
    {"/v1/videos", kNoMedia},
    {"/v1/realtime", kNoMedia},
    {"/v1/batches", kNoStore},
    {"/v1/files", kNoStore},
    {"/v1/uploads", kNoStore},
    {"/v1/vector_stores", kNoStore},
    {"/v1/containers", kNoStore},
    {"/v1/assistants", kNoStore},
    {"/v1/threads", kNoStore},
    {"/v1/conversations",
     "nibble does not store conversations: name a stored response in previous_response_id"},
    {"/v1/responses/compact",
     "nibble does not compact conversations: ask the model for a summary, or set truncation to auto"},
    {"/v1/messages/batches", kNoStore, ErrorForm::kAnthropic},
    {"/v1/fine_tuning", kNoTraining},
    {"/v1/evals", kNoTraining},
    {"/v1/load_lora_adapter", kAdaptersAtStart},
    {"/v1/unload_lora_adapter", kAdaptersAtStart},
    {"/lora-adapters", kAdaptersAtStart},
    {"/infill", "gpt-oss does not fill in text between a prefix and a suffix"},
    {"/slots", "nibble has no slots; /status.json shows the running answers"},
    {"/completion", kOtherApi},
    {"/generate", kOtherApi},
    {"/generate_stream", kOtherApi},
    {"/inference", kOtherApi},
    {"/api/embed", kNoVectors, ErrorForm::kOllama},
    {"/api/embeddings", kNoVectors, ErrorForm::kOllama},
    {"/api/pull", kOneModel, ErrorForm::kOllama},
    {"/api/push", kOneModel, ErrorForm::kOllama},
    {"/api/create", kOneModel, ErrorForm::kOllama},
    {"/api/copy", kOneModel, ErrorForm::kOllama},
    {"/api/delete", kOneModel, ErrorForm::kOllama},
    {"/api/blobs", kOneModel, ErrorForm::kOllama},
};

}  // namespace

const AbsentEndpoint* find_absent(std::string_view path) {
  const auto found = std::ranges::find_if(kAbsent, [&](const AbsentEndpoint& row) {
    return path.starts_with(row.path) && (path.size() == row.path.size() || path[row.path.size()] == '/');
  });
  return found == std::end(kAbsent) ? nullptr : &*found;
}

}  // namespace nibble::server
