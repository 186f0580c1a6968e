#include "server/http/places.h"

namespace nibble::server {

bool Places::make_room() {
  if (waiting_.empty()) return false;
  Place& longest = *waiting_.front();
  longest.work();
  longest.has_given_way_ = true;
  longest.give_way_();
  return true;
}

Places::Place::Place(std::shared_ptr<Places> places, std::function<void()> give_way)
    : places_(std::move(places)), give_way_(std::move(give_way)), self_{this}, entry_(self_.begin()) {
  ++places_->num_taken_;
}

Places::Place::~Place() {
  work();
  --places_->num_taken_;
}

void Places::Place::wait() {
  if (has_given_way_) return;
  places_->waiting_.splice(places_->waiting_.end(), waits_ ? places_->waiting_ : self_, entry_);
  waits_ = true;
}

void Places::Place::work() {
  if (waits_) self_.splice(self_.end(), places_->waiting_, entry_);
  waits_ = false;
}

}  // namespace nibble::server
