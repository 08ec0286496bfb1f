// NDCG of one query per line, for: polars-rank referee --command "node metrics.js" --metric ndcg
const readline = require("node:readline");

const discounted = (gains) =>
  gains.reduce((sum, gain, index) => sum + gain / Math.log2(index + 2), 0);

function ndcg({ ids, scores, grades, k }) {
  const score = new Map(ids.map((id, row) => [id, scores[row]]));
  if (score.size < ids.length) throw new Error("a document is repeated");
  const ranked = [...ids].sort((a, b) => score.get(b) - score.get(a) || (a < b ? 1 : -1));
  const gain = (label) => Math.max(label ?? 0, 0);
  const best = Object.values(grades).map(gain).sort((a, b) => b - a);
  const ideal = discounted(best.slice(0, k));
  return ideal ? discounted(ranked.slice(0, k).map((id) => gain(grades[id]))) / ideal : 0;
}

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const request = JSON.parse(line);
  let answer;
  try {
    answer = { value: ndcg(request) };
  } catch (error) {
    answer = { error: error.message };
  }
  console.log(JSON.stringify({ id: request.id, ...answer }));
});
