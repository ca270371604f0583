// The live picture, by server-sent events; the last quarter of an hour is kept for charts.

export interface Store {
  store: number
  worker: number | null
  state: string
  live_bytes: number | null
  disk_bytes: number | null
  free_bytes: number | null
  shortage: string | null
  damaged: number | null
  lost_entities: string[]
  lost_entity_count: number
}
export interface Busy {
  name: string
  kind: string
  in: number
  out: number
  active: number
  dead_letter: number
  scheduled: number
  deferred: number
  locked: number
}
export interface Frame {
  time_ms: number
  rates: { in: number; out: number }
  totals: { active: number; dead_letter: number; scheduled: number; deferred: number; locked: number }
  workers: { worker: number; is_up: boolean; connections: number | null }[]
  stores: Store[]
  entities: Busy[]
  entity_count: number
}

const KEPT = 900

export const live = $state<{ frame: Frame | null; entity: any; connected: boolean; refused: string }>({
  frame: null,
  entity: null,
  connected: false,
  refused: '',
})
/** Columns for charts: seconds, in, out, active, dead letters. */
export const series = $state<{ columns: number[][] }>({ columns: [[], [], [], [], []] })
export const entitySeries = $state<{ name: string; columns: number[][] }>({ name: '', columns: [[], [], [], []] })

/** The cluster, while its page is open. */
export const cluster = $state<{ status: any; refused: string }>({ status: null, refused: '' })

let source: EventSource | null = null
let watched = ''

export function watch(entity = ''): void {
  if (source && watched === entity) return
  source?.close()
  watched = entity
  live.entity = null
  follow(entity)
}

// A tab that nobody sees costs the server nothing; it goes on when it is looked at.
document.addEventListener('visibilitychange', () => {
  if (source && document.hidden) source.close()
  else if (source) follow(watched)
})

function follow(entity: string): void {
  source?.close()
  source = new EventSource('/$partibus/live' + (entity ? `?entity=${encodeURIComponent(entity)}` : ''))
  source.addEventListener('frame', (event) => take(JSON.parse(event.data)))
  source.addEventListener('entity', (event) => takeEntity(JSON.parse(event.data)))
  source.addEventListener('refused', (event) => {
    live.refused = JSON.parse(event.data).text
    stop()
  })
  source.onopen = () => {
    live.connected = true
    live.refused = ''
  }
  source.onerror = () => (live.connected = false)
}

export function stop(): void {
  source?.close()
  source = null
  live.connected = false
}

/** Follow the cluster; answers what ends it. */
export function watchCluster(): () => void {
  const feed = new EventSource('/$partibus/live?cluster=true')
  feed.addEventListener('cluster', (event) => {
    cluster.status = JSON.parse(event.data)
    cluster.refused = ''
  })
  feed.addEventListener('refused', (event) => {
    cluster.refused = JSON.parse(event.data).text
    feed.close()
  })
  feed.onerror = () => {
    if (feed.readyState === EventSource.CLOSED) cluster.refused = 'This server does not show a cluster.'
  }
  return () => feed.close()
}

function push(columns: number[][], row: number[]): number[][] {
  return columns.map((column, at) => [...column.slice(-KEPT + 1), row[at]!])
}

function take(frame: Frame): void {
  live.frame = frame
  live.connected = true
  series.columns = push(series.columns, [
    frame.time_ms / 1000,
    frame.rates.in,
    frame.rates.out,
    frame.totals.active,
    frame.totals.dead_letter,
  ])
}

function takeEntity(entity: any): void {
  live.entity = entity
  const busy = live.frame?.entities.find((one) => one.name === entity.name)
  if (entitySeries.name !== entity.name) {
    entitySeries.name = entity.name
    entitySeries.columns = [[], [], [], [], []]
  }
  entitySeries.columns = push(entitySeries.columns, [
    (live.frame?.time_ms ?? Date.now()) / 1000,
    busy?.in ?? 0,
    busy?.out ?? 0,
    entity.totals.active,
    entity.totals.dead_letter,
  ])
}
