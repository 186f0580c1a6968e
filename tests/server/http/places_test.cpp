// Tests which connection is closed when all places are taken.
#include "server/http/places.h"

#include <gtest/gtest.h>

#include <list>
#include <memory>
#include <vector>

namespace nibble::server {
namespace {

class PlacesOfTwo : public testing::Test {
 protected:
  Places::Place& take(int number) {
    return taken_.emplace_back(places_, [this, number] { given_.push_back(number); });
  }

  std::shared_ptr<Places> places_{std::make_shared<Places>(2)};
  std::list<Places::Place> taken_;
  std::vector<int> given_;
};

TEST_F(PlacesOfTwo, TheOneWhoseClientHasBeenSilentForLongestGivesWay) {
  Places::Place &one = take(1), &two = take(2), &three = take(3);
  EXPECT_TRUE(places_->are_too_few());
  one.wait();
  two.wait();
  three.wait();
  one.work();  // its client has sent something,
  one.wait();  // so it has been silent for the shortest time
  EXPECT_TRUE(places_->make_room());
  EXPECT_EQ(given_, std::vector({2}));
  EXPECT_TRUE(two.has_given_way());
  EXPECT_FALSE(one.has_given_way());
}

TEST_F(PlacesOfTwo, WhatTheServerWorksForNeverGivesWay) {
  Places::Place &one = take(1), &two = take(2);
  EXPECT_FALSE(places_->make_room());
  one.wait();
  two.wait();
  one.work();
  EXPECT_TRUE(places_->make_room());
  EXPECT_FALSE(places_->make_room());
  EXPECT_EQ(given_, std::vector({2}));
}

TEST_F(PlacesOfTwo, AConnectionGivesWayOnce) {
  Places::Place& one = take(1);
  one.wait();
  EXPECT_TRUE(places_->make_room());
  one.wait();  // while it is being closed
  EXPECT_FALSE(places_->make_room());
}

TEST_F(PlacesOfTwo, APlaceIsFreeWhenItsConnectionEnds) {
  take(1).wait();
  take(2);
  take(3).wait();
  taken_.pop_front();
  EXPECT_EQ(places_->num_taken(), 2);
  EXPECT_FALSE(places_->are_too_few());
  EXPECT_TRUE(places_->make_room());
  EXPECT_EQ(given_, std::vector({3}));
}

}  // namespace
}  // namespace nibble::server
