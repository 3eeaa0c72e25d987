// NameTable: the entries of a map found by their whole key, at the cost of one or two cache misses where walking a tree
// of 10,000 keys costs a dozen. It holds iterators only; the map owns the keys.
//
// In shards, because growing visits every entry: a million keys in one table would hold up the loop for a tenth of a
// second, in 256 shards each growth is a pause of less than a millisecond.
#pragma once

#include <array>
#include <boost/unordered/unordered_flat_set.hpp>
#include <optional>
#include <string_view>

namespace rallypoint::mvcc {

template <class Iterator>  // of a map of strings; stays valid until it is erased here
class NameTable {
 public:
  [[nodiscard]] std::optional<Iterator> find(std::string_view name) const {
    const Named named{name, std::hash<std::string_view>()(name)};
    const Shard& shard = shards_[shard_of(named.hash)];
    const auto it = shard.find(named);
    return it == shard.end() ? std::nullopt : std::optional(*it);
  }
  /// Its name must not be here yet.
  void add(Iterator entry) { shards_[shard_of(hash_of(entry))].insert(entry); }
  void erase(Iterator entry) { shards_[shard_of(hash_of(entry))].erase(entry); }

 private:
  struct Named {
    std::string_view name;
    size_t hash;
  };
  static size_t hash_of(Iterator entry) { return std::hash<std::string_view>()(entry->first); }
  static size_t shard_of(size_t hash) { return hash >> 56; }  // the tables use the other bits

  struct Hash {
    using is_transparent = void;
    size_t operator()(Iterator entry) const { return hash_of(entry); }
    size_t operator()(const Named& named) const { return named.hash; }
  };
  struct Equal {
    using is_transparent = void;
    bool operator()(Iterator a, Iterator b) const { return a == b; }
    bool operator()(const Named& a, Iterator b) const { return a.name == b->first; }
    bool operator()(Iterator a, const Named& b) const { return a->first == b.name; }
  };
  using Shard = boost::unordered_flat_set<Iterator, Hash, Equal>;
  std::array<Shard, 256> shards_;
};

}  // namespace rallypoint::mvcc
