// Compares the time of a run of Berth and of ONNX Runtime: one thread each, by turns, in one run of this script. Uses
// the models in build/models and the input that `berth run` makes.
//
//   npm install --no-save --ignore-scripts onnxruntime-node@1.30.0      (about 290 MB)
//   scripts/fetch_models.sh --all
//   node scripts/time_against_onnxruntime.mjs [build/models] [build/bin/berth]
import {execFileSync} from 'node:child_process';
import {existsSync} from 'node:fs';
import {createRequire} from 'node:module';
import {resolve} from 'node:path';

import {feedsOf, models} from './models.mjs';

const require = createRequire(resolve('package.json'));
const ort = require('onnxruntime-node');

const rounds = 5, budget = 800; // ms of ONNX Runtime's runs a round; berth run takes about as long
const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];
const spread = (list) => `${Math.min(...list).toFixed(2)} to ${Math.max(...list).toFixed(2)}`;

const [source = 'build/models', berth = 'build/bin/berth'] = process.argv.slice(2);
console.log('model'.padEnd(18), 'berth, ms'.padStart(10), 'ONNX Runtime, ms'.padStart(18), 'ratio'.padStart(7),
            'fastest'.padStart(9), '  medians of the rounds, in brackets their spread; the ratio of the fastest runs');
for (const {file, dims} of models) {
  if (!existsSync(`${source}/${file}`)) continue;
  const session = await ort.InferenceSession.create(`${source}/${file}`, {
    executionProviders: ['cpu'], intraOpNumThreads: 1, interOpNumThreads: 1, logSeverityLevel: 3});
  const feeds = feedsOf(ort, session, dims);
  await session.run(feeds);
  const bound = Object.entries(dims).flatMap(([name, size]) => ['--dim', `${name}=${size}`]);
  const ours = [], theirs = [];
  let fastest = [Infinity, Infinity];
  for (let round = 0; round < rounds; ++round) {
    const times = [];
    for (let spent = 0; times.length < 5 || (spent < budget && times.length < 200); spent += times.at(-1)) {
      const begin = performance.now();
      await session.run(feeds);
      times.push(performance.now() - begin);
    }
    theirs.push(median(times));
    fastest[1] = Math.min(fastest[1], ...times);
    const answer = execFileSync(berth, ['run', `${source}/${file}`, ...bound, '--json'],
                                {env: {...process.env, OMP_NUM_THREADS: '1'}});
    ours.push(JSON.parse(answer).run_ms);
    fastest[0] = Math.min(fastest[0], JSON.parse(answer).run_fastest_ms);
  }
  const a = median(ours), b = median(theirs);
  console.log(file.replace('.onnx', '').padEnd(18), a.toFixed(2).padStart(10), b.toFixed(2).padStart(18),
              (a / b).toFixed(2).padStart(7), (fastest[0] / fastest[1]).toFixed(2).padStart(9),
              `  (${spread(ours)}; ${spread(theirs)})`);
}
