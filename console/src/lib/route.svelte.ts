// Where we are: the hash of the address, so that every page is a link that can be shared.

export interface Place {
  page: string
  parts: string[]
  query: Record<string, string>
}

function read(): Place {
  const [path = '', search = ''] = location.hash.replace(/^#\/?/, '').split('?')
  const parts = path.split('/').filter(Boolean).map(decodeURIComponent)
  return { page: parts[0] ?? 'overview', parts: parts.slice(1), query: Object.fromEntries(new URLSearchParams(search)) }
}

export const route = $state<{ at: Place }>({ at: read() })
addEventListener('hashchange', () => (route.at = read()))

export function link(page: string, parts: string[] = [], query: Record<string, string> = {}): string {
  const search = new URLSearchParams(Object.entries(query).filter(([, v]) => v !== '')).toString()
  return '#/' + [page, ...parts].map(encodeURIComponent).join('/') + (search ? '?' + search : '')
}

export function go(page: string, parts: string[] = [], query: Record<string, string> = {}): void {
  location.hash = link(page, parts, query)
}

/** Other parameters of the same page; the way back stays short. */
export function adjust(changes: Record<string, string>): void {
  const { page, parts, query } = route.at
  history.replaceState(null, '', link(page, parts, { ...query, ...changes }))
  route.at = read()
}

export const entityLink = (name: string, tab = 'messages', query: Record<string, string> = {}) =>
  link('entity', [name, tab], query)
