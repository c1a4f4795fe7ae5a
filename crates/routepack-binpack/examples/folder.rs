//! Packs every file of folders: `folder SECONDS FILE_OR_FOLDER...`.
use std::time::{Duration, Instant};
use routepack_binpack::*;
use routepack_certificate::Statement;
fn main(){
    let mut args=std::env::args().skip(1); let limit=Duration::from_secs_f64(args.next().unwrap().parse().unwrap());
    for arg in args { let mut files:Vec<_>= if std::path::Path::new(&arg).is_dir() { std::fs::read_dir(&arg).unwrap().map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e=="txt")).collect() } else { vec![arg.clone().into()] }; files.sort();
      let (mut proved,mut sum,mut worst)=(0,0.0,0.0f64); let count=files.len();
      for path in files {
        let v:Vec<u64>=std::fs::read_to_string(&path).unwrap().split_whitespace().map(|x|x.parse().unwrap()).collect();
        let (n,c)=(v[0] as usize,v[1]); let w=if v.len()==n+2 {v[2..].to_vec()} else { v[2..].chunks(2).flat_map(|p| std::iter::repeat_n(p[0],p[1] as usize)).collect() };
        let slots=std::env::var("SLOTS").map_or(1,|x| x.parse().unwrap());
        let st=Statement{slots,..Statement::bins(w,c)}; let t0=Instant::now(); let mut log=vec![];
        let r=pack(&st,&PackOptions::default(),1,&|| t0.elapsed()>limit,&mut |p| log.push(format!("{}:{}/{}@{:.3}",p.method,p.cells_bound,p.cells,t0.elapsed().as_secs_f64())));
        let t=t0.elapsed().as_secs_f64();
        match r { Err(e)=>println!("{} ERROR {e}",path.display()), Ok(r)=>{ let ok=r.rows==r.rows_bound; if ok {proved+=1; sum+=t; worst=worst.max(t);} if !ok || std::env::var("LOG").is_ok() {println!("{} {}/{} {} {t:.3}s {} {} | {}",path.display(),r.cells_bound,r.cells,if ok {"proved"} else {"open"},r.proved_by,r.finished,log.join(" "));} } }
      }
      println!("{arg}: proved {proved}/{count} mean {:.4} max {worst:.3}",sum/proved.max(1) as f64);
    }
}
